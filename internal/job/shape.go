package job

import (
	"fmt"
	"slices"
	"strings"
)

// shape is what is known of a sample between two layers before any data is
// read. The zero value knows nothing.
type shape struct {
	dims []int // 0: a size that is not known; nil: not even their number
	last int   // the last size, when dims is nil; 0: not known
}

func (s shape) String() string {
	words := make([]string, len(s.dims))
	for i, d := range s.dims {
		words[i] = "?"
		if d > 0 {
			words[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}

// end is the size of the last dimension, 0 when it is not known.
func (s shape) end() int {
	if s.dims == nil {
		return s.last
	}
	return s.dims[len(s.dims)-1]
}

// withEnd is the shape with another last dimension.
func (s shape) withEnd(n int) shape {
	if s.dims == nil {
		return shape{last: n}
	}
	dims := slices.Clone(s.dims)
	dims[len(dims)-1] = n
	return shape{dims: dims}
}

// count is the number of elements, 0 when it is not known.
func (s shape) count() int {
	if s.dims == nil || slices.Contains(s.dims, 0) {
		return 0
	}
	return product(s.dims...)
}

// checker follows the shape of a sample through the layers.
type checker struct {
	d      *decoder
	shape  shape
	before string            // the layer that gave the shape
	names  map[string]string // layers by the names of their tensors
}

// checkLayers refuses layers that cannot follow each other, whatever the data
// holds. What hangs on the data is checked again when the model is built.
func (d *decoder) checkLayers(layers []Layer, data *Data) {
	c := checker{d: d, before: "the data", names: map[string]string{}}
	kind, length := samplesOf(data)
	if kind == features {
		c.shape = featureShape(data)
	}
	for i, l := range layers {
		if l.Op == "" || !c.sound(i) {
			c.shape = shape{}
			continue
		}
		c.name(i, l)
		c.embedding(i, l, kind, length)
		c.layer(i, l)
		c.before = describeLayer(i, l)
	}
	if len(layers) > 0 {
		c.finish(len(layers)-1, kind, data)
	}
}

// featureShape is the shape of a sample as far as the job file tells it.
func featureShape(data *Data) shape {
	switch {
	case data.CSV != nil && data.CSV.Features.Set:
		return shape{dims: []int{data.CSV.Features.To - data.CSV.Features.From}}
	case data.Synthetic != nil && len(data.Synthetic.Shape) > 0:
		return shape{dims: data.Synthetic.Shape}
	}
	return shape{}
}

// sound says whether all that was read of a layer means something.
func (c *checker) sound(i int) bool {
	for _, key := range layerSection(&Layer{}).keys() {
		if !c.d.sound(layerKey(i, key)) {
			return false
		}
	}
	return true
}

func (c *checker) refuse(i int, key, format string, args ...any) {
	c.d.refuse(layerKey(i, key), format, args...)
}

// name refuses two layers whose tensors have the same names. A layer without a
// name has its number, as in torch.nn.Sequential.
func (c *checker) name(i int, l Layer) {
	switch l.Op {
	case "linear", "conv2d", "batchnorm2d", "layernorm", "embedding":
	default:
		return
	}
	name := l.Name
	if name == "" {
		name = fmt.Sprint(i)
	}
	if other, taken := c.names[name]; taken {
		c.refuse(i, "name", "the name %s is taken by %s", shorten(name), other)
		return
	}
	c.names[name] = describeLayer(i, l)
}

// embedding is for tokens, and comes first.
func (c *checker) embedding(i int, l Layer, kind sampleKind, length int) {
	switch {
	case l.Op == "embedding" && i > 0:
		c.refuse(i, "op", "an embedding must be the first layer")
	case l.Op == "embedding" && kind == features:
		c.refuse(i, "op", "an embedding reads tokens, the data has features")
	case l.Op != "embedding" && i == 0 && kind == tokens:
		c.refuse(i, "op", "the data is tokens, so the first layer must be an embedding, got %s", l.Op)
	}
	if l.Op == "embedding" {
		c.shape = shape{dims: []int{length, l.Width}}
	}
}

func (c *checker) layer(i int, l Layer) {
	switch l.Op {
	case "linear":
		c.end(i, "in", l.In)
		c.weights(i, l.In, l.Out)
		c.shape = c.shape.withEnd(l.Out)
	case "layernorm":
		c.end(i, "features", l.Features)
	case "conv2d", "batchnorm2d", "maxpool2d", "avgpool2d", "global_avgpool":
		c.planes(i, l)
	case "flatten":
		c.shape = shape{dims: []int{c.shape.count()}}
	case "reshape":
		if have, want := c.shape.count(), product(l.Shape...); have > 0 && have != want {
			c.refuse(i, "shape", "%v has %d elements, %s gives %v, which has %d", l.Shape, want, c.before, c.shape, have)
		}
		c.shape = shape{dims: l.Shape}
	}
}

// end compares the last dimension with what a layer declares.
func (c *checker) end(i int, key string, want int) {
	if have := c.shape.end(); have > 0 && have != want {
		c.refuse(i, key, "is %d, but %s gives %d", want, c.before, have)
	}
}

// weights refuses sizes that would overflow in the engine.
func (c *checker) weights(i int, sizes ...int) {
	if product(sizes...) > maxElements {
		c.refuse(i, "out", "the layer has more than %d weights: no machine holds them", maxElements)
	}
}

// planes checks a layer over [channels height width].
func (c *checker) planes(i int, l Layer) {
	dims := c.shape.dims
	switch {
	case dims == nil:
		dims = []int{0, 0, 0}
	case len(dims) != 3:
		c.refuse(i, "op", "%s wants [channels height width], %s gives %v (is a reshape missing?)", l.Op, c.before, c.shape)
		dims = []int{0, 0, 0}
	}
	channels, h, w := dims[0], dims[1], dims[2]
	switch l.Op {
	case "conv2d":
		c.channels(i, "in", l.In, channels)
		c.weights(i, l.Out, l.In, l.Kernel, l.Kernel)
		c.shape = shape{dims: []int{l.Out, c.window(i, l, h), c.window(i, l, w)}}
	case "batchnorm2d":
		c.channels(i, "features", l.Features, channels)
		c.shape = shape{dims: []int{l.Features, h, w}}
	case "global_avgpool":
		c.shape = shape{dims: []int{channels, 1, 1}}
	default:
		c.shape = shape{dims: []int{channels, c.window(i, l, h), c.window(i, l, w)}}
	}
}

func (c *checker) channels(i int, key string, want, have int) {
	if have > 0 && have != want {
		c.refuse(i, key, "is %d, but %s gives %d channels", want, c.before, have)
	}
}

// window is how often a window fits into n rows or columns; 0 when n is not
// known.
func (c *checker) window(i int, l Layer, n int) int {
	if n == 0 {
		return 0
	}
	room := n + 2*l.Padding - l.Kernel
	if room < 0 {
		c.refuse(i, "kernel", "is %d, but %s gives %v and padding is %d", l.Kernel, c.before, c.shape, l.Padding)
		return 0
	}
	return room/l.Stride + 1
}

// finish looks at what the last layer gives: a row of classes.
func (c *checker) finish(last int, kind sampleKind, data *Data) {
	if dims := c.shape.dims; kind == features && slices.Max(append([]int{0}, dims[:max(len(dims)-1, 0)]...)) > 1 {
		c.refuse(last, "op", "the last layer gives %v for a sample, cross_entropy wants one row of classes (is a flatten missing?)", c.shape)
		return
	}
	if s := data; s != nil && s.Synthetic != nil && c.shape.end() > 0 && s.Synthetic.Classes > c.shape.end() {
		c.d.refuse("data.synthetic.classes", "is %d, but %s gives %d", s.Synthetic.Classes, c.before, c.shape.end())
	}
}
