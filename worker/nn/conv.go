package nn

import (
	"errors"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// conv2d is a convolution over [batch channels height width].
type conv2d struct {
	weight                  *Param // [out in kernel kernel]
	bias                    *Param // nil: none
	kernel, stride, padding int
}

func (c *conv2d) params() []*Param {
	if c.bias == nil {
		return []*Param{c.weight}
	}
	return []*Param{c.weight, c.bias}
}

func (c *conv2d) forward(t *Tape, x *Var) *Var {
	if t.failed() {
		return dead()
	}
	s := x.Value.Shape()
	y := t.alloc(c.weight.Name, s[0], c.weight.Shape[0], c.outSize(s[2]), c.outSize(s[3]))
	if y == nil {
		return dead()
	}
	args := device.Conv2DArgs{Out: y, X: x.Value, Weight: c.weight.Value, Kernel: c.kernel, Stride: c.stride, Padding: c.padding}
	if c.bias != nil {
		args.Bias = c.bias.Value
	}
	t.check(c.weight.Name, t.dev.Conv2D(args))
	out := t.output(y, true)
	x.kept = true
	t.push(node{name: c.weight.Name, outs: []*Var{out}, params: c.params(), back: func() { c.backward(t, x, out) }}, []*Var{x})
	return out
}

func (c *conv2d) outSize(n int) int { return (n+2*c.padding-c.kernel)/c.stride + 1 }

func (c *conv2d) backward(t *Tape, x, out *Var) {
	dy, _ := out.take()
	defer dy.Release()
	args := device.Conv2DGradArgs{
		DOut: dy, X: x.Value, Weight: c.weight.Value, DWeight: c.weight.Grad,
		Kernel: c.kernel, Stride: c.stride, Padding: c.padding,
		Accumulate: c.weight.beta() == 1,
	}
	if c.bias != nil {
		c.bias.beta()
		args.DBias = c.bias.Grad
	}
	if x.needs {
		if args.DX = t.alloc(c.weight.Name, x.Value.Shape()...); args.DX == nil {
			return
		}
	}
	t.check(c.weight.Name, t.dev.Conv2DGrad(args))
	t.give(x, args.DX)
}

// batchNorm normalises each channel of [batch channels height width].
type batchNorm struct {
	name        string
	gamma, beta *Param
	mean, vari  *Buffer // running
	eps, moment float32
}

func newBatchNorm(ps *Parameters, name string, channels int, eps, momentum float64) *batchNorm {
	return &batchNorm{
		name:  name,
		gamma: ps.param(name+".weight", constant(1), channels),
		beta:  ps.param(name+".bias", constant(0), channels),
		mean:  ps.buffer(name+".running_mean", constant(0), channels),
		vari:  ps.buffer(name+".running_var", constant(1), channels),
		eps:   float32(eps), moment: float32(momentum),
	}
}

func (b *batchNorm) forward(t *Tape, x *Var) *Var {
	if t.failed() {
		return dead()
	}
	channels := b.gamma.Shape[0]
	if t.training && x.Value.Len() == channels {
		// The variance of one value says nothing, and its running mean would
		// become NaN. PyTorch refuses as well.
		t.check(b.name, errors.New("a batch of one sample with one value a channel cannot be normalised in training: use another train.batch_size, or loader.drop_last: true to leave out a short last batch"))
		return dead()
	}
	y := t.alloc(b.name, x.Value.Shape()...)
	mean, rstd := t.alloc(b.name, channels), t.alloc(b.name, channels)
	if t.failed() {
		return dead()
	}
	t.check(b.name, t.dev.BatchNorm(device.BatchNormArgs{
		Out: y, X: x.Value, Gamma: b.gamma.Value, Beta: b.beta.Value,
		RunningMean: b.mean.Value, RunningVar: b.vari.Value, Mean: mean, Rstd: rstd,
		Eps: b.eps, Momentum: b.moment, Training: t.training,
	}))
	out := t.output(y, true)
	x.kept = true
	t.push(node{
		name: b.name, outs: []*Var{out}, saved: []*tensor.Tensor{mean, rstd}, params: []*Param{b.gamma, b.beta},
		back: func() { b.backward(t, x, out, mean, rstd) },
	}, []*Var{x})
	return out
}

func (b *batchNorm) backward(t *Tape, x, out *Var, mean, rstd *tensor.Tensor) {
	dy, _ := out.take()
	defer dy.Release()
	dx := t.alloc(b.name, x.Value.Shape()...)
	if dx == nil {
		return
	}
	accumulate := b.gamma.beta() == 1
	b.beta.beta()
	t.check(b.name, t.dev.BatchNormGrad(device.BatchNormGradArgs{
		DX: dx, DOut: dy, X: x.Value, Gamma: b.gamma.Value, Mean: mean, Rstd: rstd,
		DGamma: b.gamma.Grad, DBeta: b.beta.Grad, Accumulate: accumulate,
	}))
	t.give(x, dx)
}

// pool takes the largest or the mean of windows.
type pool struct {
	name           string
	kernel, stride int
	max            bool
}

func (p *pool) forward(t *Tape, x *Var) *Var {
	if t.failed() {
		return dead()
	}
	s := x.Value.Shape()
	y := t.alloc(p.name, s[0], s[1], p.outSize(s[2]), p.outSize(s[3]))
	if y == nil {
		return dead()
	}
	args := device.PoolArgs{Out: y, X: x.Value, Kernel: p.kernel, Stride: p.stride, Max: p.max}
	if p.max {
		if args.Index = t.allocAs(p.name, tensor.Int32, y.Shape()...); args.Index == nil {
			return dead()
		}
	}
	t.check(p.name, t.dev.Pool(args))
	out := t.output(y, x.needs)
	t.push(node{name: p.name, outs: []*Var{out}, saved: []*tensor.Tensor{args.Index}, back: func() {
		dy, _ := out.take()
		defer dy.Release()
		dx := t.alloc(p.name, x.Value.Shape()...)
		if dx == nil {
			return
		}
		t.check(p.name, t.dev.PoolGrad(device.PoolGradArgs{
			DX: dx, DOut: dy, Index: args.Index, Kernel: p.kernel, Stride: p.stride, Max: p.max,
		}))
		t.give(x, dx)
	}}, []*Var{x})
	return out
}

func (p *pool) outSize(n int) int { return (n-p.kernel)/p.stride + 1 }

// globalAvgPool is the mean of each channel's plane, [batch channels 1 1] as
// PyTorch's AdaptiveAvgPool2d(1) gives it: a product with the vector of
// 1/(height*width).
func globalAvgPool(t *Tape, name string, x *Var) *Var {
	if t.failed() {
		return dead()
	}
	s := x.Value.Shape()
	planes, size := s[0]*s[1], s[2]*s[3]
	mean := t.alloc(name, size, 1)
	y := t.alloc(name, s[0], s[1], 1, 1)
	if t.failed() {
		return dead()
	}
	values := make([]float32, size)
	constant(1/float32(size))(values, nil)
	t.check(name, t.dev.Upload(mean, bytesOf(values)))
	flat := func(v *tensor.Tensor, cols int) *tensor.Tensor {
		w, err := v.View(planes, cols)
		t.check(name, err)
		return w
	}
	product := func(out *tensor.Tensor, outCols int, a *tensor.Tensor, aCols int, transB bool) {
		o, in := flat(out, outCols), flat(a, aCols)
		if o != nil && in != nil {
			t.check(name, t.dev.MatMul(device.MatMulArgs{Out: o, A: in, B: mean, TransB: transB}))
			o.Release()
			in.Release()
		}
	}
	product(y, 1, x.Value, size, false)
	out := t.output(y, x.needs)
	t.push(node{name: name, outs: []*Var{out}, saved: []*tensor.Tensor{mean}, back: func() {
		dy, _ := out.take()
		defer dy.Release()
		if dx := t.alloc(name, x.Value.Shape()...); dx != nil {
			product(dx, size, dy, 1, true)
			t.give(x, dx)
		}
	}}, []*Var{x})
	return out
}
