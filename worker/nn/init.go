package nn

import (
	"math"
	"unsafe"

	"github.com/ddprun/ddprun/sampler"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Initializer fills the starting values of one tensor from the job's generator.
type Initializer func(dst []float32, g *sampler.Generator)

// constant fills with one value and draws nothing.
func constant(v float32) Initializer {
	return func(dst []float32, _ *sampler.Generator) {
		for i := range dst {
			dst[i] = v
		}
	}
}

// uniform draws from [-bound, bound).
func uniform(bound float64) Initializer {
	return func(dst []float32, g *sampler.Generator) {
		for i := range dst {
			dst[i] = float32((2*float64(g.Float32()) - 1) * bound)
		}
	}
}

// fanIn is PyTorch's default for weights and biases of linear and convolution
// layers: uniform within 1/sqrt(fan in) (kaiming_uniform with a = sqrt(5)).
func fanIn(n int) Initializer { return uniform(1 / math.Sqrt(float64(max(n, 1)))) }

// normal draws from N(0, std) by the Box-Muller transform.
func normal(std float64) Initializer {
	return func(dst []float32, g *sampler.Generator) {
		for i := 0; i < len(dst); i += 2 {
			r := std * math.Sqrt(-2*math.Log(1-g.Float64()))
			sin, cos := math.Sincos(2 * math.Pi * g.Float64())
			dst[i] = float32(r * cos)
			if i+1 < len(dst) {
				dst[i+1] = float32(r * sin)
			}
		}
	}
}

// Reset gives every parameter and buffer its starting value, drawn in
// registration order from one generator: a function of the seed alone.
func (ps *Parameters) Reset(d device.Device, seed int64) error {
	g := sampler.NewGenerator(seed)
	for _, p := range ps.Params {
		if err := fill(d, p.Value, p.init, g); err != nil {
			return err
		}
	}
	for _, b := range ps.Buffers {
		if err := fill(d, b.Value, b.init, g); err != nil {
			return err
		}
	}
	return nil
}

func fill(d device.Device, t *tensor.Tensor, init Initializer, g *sampler.Generator) error {
	values := make([]float32, t.Len())
	init(values, g)
	return d.Upload(t, bytesOf(values))
}

// bytesOf is the memory of s as bytes.
func bytesOf[T float32 | int32](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s))
}
