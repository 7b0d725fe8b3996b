package nn

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// sequential is the layers of a job file, one after the other.
type sequential struct {
	ps    *Parameters
	input []int // shape of a sample
	embed *embedding
	steps []step
}

// step maps a batch of samples to the next layer's input.
type step func(t *Tape, x *Var, n int) *Var

// newSequential checks that each layer fits the shape before it.
func newSequential(ps *Parameters, layers []job.Layer, src Source) (Model, int, error) {
	s := &sequential{ps: ps, input: src.Features}
	b := seqBuilder{ps: ps, shape: src.Features, tokens: src.Length}
	for i := 0; i < len(layers); {
		used, err := b.add(layers[i:], i)
		if err != nil {
			return nil, 0, err
		}
		i += used
	}
	s.steps, s.embed = b.steps, b.embed
	if b.tokens > 0 && b.embed == nil {
		return nil, 0, fmt.Errorf("model.layers: the data is tokens, so the first layer must be an embedding")
	}
	if len(b.shape) == 0 {
		return nil, 0, fmt.Errorf("model.layers: there are none")
	}
	classes := b.shape[len(b.shape)-1]
	if b.tokens == 0 && tensor.Count(b.shape) != classes {
		return nil, 0, fmt.Errorf("model.layers: the last layer gives %v for a sample, cross_entropy wants one row of classes (is a flatten missing?)", b.shape)
	}
	return s, classes, nil
}

func (s *sequential) State() *Parameters { return s.ps }

func (s *sequential) Forward(t *Tape, in Input) *Var {
	var x *Var
	if s.embed != nil {
		x = s.embed.forward(t, in.Tokens, in.Length)
		x = reshape(t, "embedding", x, in.N, in.Length, s.embed.table.Shape[1])
	} else {
		x = t.Input(in.X)
	}
	for _, f := range s.steps {
		x = f(t, x, in.N)
	}
	return x
}

// seqBuilder follows the shape of a sample through the layers.
type seqBuilder struct {
	ps     *Parameters
	shape  []int // of one sample after the layers so far
	tokens int   // > 0: the samples are token sequences
	embed  *embedding
	steps  []step
}

// add builds the first of layers, together with an activation behind it that
// can be fused, and tells how many it has taken. at is its place, for messages.
func (b *seqBuilder) add(layers []job.Layer, at int) (int, error) {
	l := layers[0]
	if l.Name == "" {
		l.Name = fmt.Sprint(at) // as torch.nn.Sequential names its modules
	}
	fail := func(want string) error {
		return fmt.Errorf("model.layers.%d (%s %s): wants %s, gets %v", at, l.Op, l.Name, want, b.shape)
	}
	if b.tokens > 0 && b.embed == nil && l.Op != "embedding" {
		return 0, fmt.Errorf("model.layers.%d (%s): the data is tokens, so the first layer must be an embedding", at, l.Op)
	}
	switch l.Op {
	case "linear":
		if len(b.shape) == 0 || b.shape[len(b.shape)-1] != l.In {
			return 0, fail(fmt.Sprintf("%d features in the last dimension", l.In))
		}
		act, used := fusable(layers)
		b.linear(l, act)
		return used, nil
	case "embedding":
		return 1, b.embedding(l, at)
	case "conv2d", "batchnorm2d", "maxpool2d", "avgpool2d", "global_avgpool":
		return 1, b.planes(l, fail)
	case "layernorm":
		if len(b.shape) == 0 || b.shape[len(b.shape)-1] != l.Features {
			return 0, fail(fmt.Sprintf("%d features in the last dimension", l.Features))
		}
		n := newLayerNorm(b.ps, l.Name, l.Features, l.Eps)
		b.push(func(t *Tape, x *Var, _ int) *Var { return n.forward(t, x) })
	case "relu":
		b.push(func(t *Tape, x *Var, _ int) *Var { return activate(t, l.Name, x, device.ReLU) })
	case "gelu":
		b.push(func(t *Tape, x *Var, _ int) *Var { return activate(t, l.Name, x, device.GELU) })
	case "dropout":
		b.push(func(t *Tape, x *Var, _ int) *Var { return dropout(t, l.Name, x, float32(l.P)) })
	case "flatten":
		return 1, b.reshape(l.Name, []int{tensor.Count(b.shape)}, fail)
	case "reshape":
		return 1, b.reshape(l.Name, l.Shape, fail)
	default:
		return 0, fmt.Errorf("model.layers.%d: unknown op %s", at, l.Op)
	}
	return 1, nil
}

// fusable is the activation behind a linear layer and the number of layers the
// two are.
func fusable(layers []job.Layer) (device.Activation, int) {
	if len(layers) > 1 {
		switch layers[1].Op {
		case "relu":
			return device.ReLU, 2
		case "gelu":
			return device.GELU, 2
		}
	}
	return device.Identity, 1
}

func (b *seqBuilder) push(f step) { b.steps = append(b.steps, f) }

func (b *seqBuilder) linear(l job.Layer, act device.Activation) {
	n := &linear{weight: b.ps.param(l.Name+".weight", fanIn(l.In), l.Out, l.In), transposed: true, act: act}
	if l.Bias {
		n.bias = b.ps.param(l.Name+".bias", fanIn(l.In), l.Out)
	}
	lead := b.shape[:len(b.shape)-1]
	b.shape = append(append([]int{}, lead...), l.Out)
	if len(lead) == 0 {
		b.push(func(t *Tape, x *Var, _ int) *Var { return n.forward(t, x) })
		return
	}
	shape := b.shape
	b.push(func(t *Tape, x *Var, batch int) *Var {
		return reshape(t, l.Name, n.forward(t, x), append([]int{batch}, shape...)...)
	})
}

func (b *seqBuilder) embedding(l job.Layer, at int) error {
	if b.tokens == 0 || b.embed != nil || at != 0 {
		return fmt.Errorf("model.layers.%d (embedding %s): must be the first layer, over token data", at, l.Name)
	}
	b.embed = &embedding{table: b.ps.param(l.Name+".weight", normal(1), l.Vocab, l.Width)}
	b.shape = []int{b.tokens, l.Width}
	return nil
}

func (b *seqBuilder) reshape(name string, shape []int, fail func(string) error) error {
	if tensor.Count(shape) != tensor.Count(b.shape) {
		return fail(fmt.Sprintf("%d elements for shape %v", tensor.Count(shape), shape))
	}
	b.shape = shape
	b.push(func(t *Tape, x *Var, batch int) *Var {
		return reshape(t, name, x, append([]int{batch}, shape...)...)
	})
	return nil
}

// planes adds a layer over [channels height width].
func (b *seqBuilder) planes(l job.Layer, fail func(string) error) error {
	if len(b.shape) != 3 {
		return fail("[channels height width] (is a reshape missing?)")
	}
	c, h, w := b.shape[0], b.shape[1], b.shape[2]
	switch l.Op {
	case "conv2d":
		if c != l.In {
			return fail(fmt.Sprintf("%d channels", l.In))
		}
		fan := l.In * l.Kernel * l.Kernel
		n := &conv2d{weight: b.ps.param(l.Name+".weight", fanIn(fan), l.Out, l.In, l.Kernel, l.Kernel), kernel: l.Kernel, stride: l.Stride, padding: l.Padding}
		if l.Bias {
			n.bias = b.ps.param(l.Name+".bias", fanIn(fan), l.Out)
		}
		if min(h, w)+2*l.Padding < l.Kernel {
			return fail(fmt.Sprintf("at least %d rows and columns", l.Kernel-2*l.Padding))
		}
		b.shape = []int{l.Out, n.outSize(h), n.outSize(w)}
		b.push(func(t *Tape, x *Var, _ int) *Var { return n.forward(t, x) })
	case "batchnorm2d":
		if c != l.Features {
			return fail(fmt.Sprintf("%d channels", l.Features))
		}
		n := newBatchNorm(b.ps, l.Name, l.Features, l.Eps, l.Momentum)
		b.push(func(t *Tape, x *Var, _ int) *Var { return n.forward(t, x) })
	case "global_avgpool":
		b.shape = []int{c, 1, 1}
		b.push(func(t *Tape, x *Var, _ int) *Var { return globalAvgPool(t, l.Name, x) })
	default:
		if min(h, w) < l.Kernel {
			return fail(fmt.Sprintf("at least %d rows and columns", l.Kernel))
		}
		p := &pool{name: l.Name, kernel: l.Kernel, stride: l.Stride, max: l.Op == "maxpool2d"}
		b.shape = []int{c, p.outSize(h), p.outSize(w)}
		b.push(func(t *Tape, x *Var, _ int) *Var { return p.forward(t, x) })
	}
	return nil
}
