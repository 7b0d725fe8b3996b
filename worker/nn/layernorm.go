package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// layerNorm normalises over the last dimension.
type layerNorm struct {
	name        string
	gamma, beta *Param
	eps         float32
}

func newLayerNorm(ps *Parameters, name string, width int, eps float64) *layerNorm {
	return &layerNorm{
		name:  name,
		gamma: ps.param(name+".weight", constant(1), width),
		beta:  ps.param(name+".bias", constant(0), width),
		eps:   float32(eps),
	}
}

// forward normalises x.
func (l *layerNorm) forward(t *Tape, x *Var) *Var {
	_, out := l.addForward(t, x, nil)
	return out
}

// addForward returns sum = x + residual and the normalised sum; without a
// residual, sum is x itself.
func (l *layerNorm) addForward(t *Tape, x, residual *Var) (sum, out *Var) {
	if t.failed() {
		return dead(), dead()
	}
	rows := x.Value.Rows()
	y := t.alloc(l.name, x.Value.Shape()...)
	mean, rstd := t.alloc(l.name, rows), t.alloc(l.name, rows)
	args := device.LayerNormArgs{Out: y, X: x.Value, Gamma: l.gamma.Value, Beta: l.beta.Value, Mean: mean, Rstd: rstd, Eps: l.eps}
	sum = x
	ins := []*Var{x}
	if residual != nil {
		args.Residual, args.Sum = residual.Value, t.alloc(l.name, x.Value.Shape()...)
		sum = t.output(args.Sum, x.needs || residual.needs)
		ins = append(ins, residual)
	}
	if t.failed() {
		return dead(), dead()
	}
	t.check(l.name, t.dev.LayerNorm(args))
	out = t.output(y, true)
	sum.kept = true
	n := node{name: l.name, outs: []*Var{out}, saved: []*tensor.Tensor{mean, rstd}, params: []*Param{l.gamma, l.beta}}
	if residual != nil {
		n.outs = append(n.outs, sum)
	}
	n.back = func() { l.backward(t, x, residual, sum, out, mean, rstd) }
	t.push(n, ins)
	return sum, out
}

func (l *layerNorm) backward(t *Tape, x, residual, sum, out *Var, mean, rstd *tensor.Tensor) {
	var dsum *tensor.Tensor
	if residual != nil {
		dsum, _ = sum.take()
	}
	dout, _ := out.take()
	d := dsum
	if dout != nil {
		d = l.normGrad(t, sum.Value, dsum, dout, mean, rstd)
		if dsum != nil {
			dsum.Release()
		}
	}
	if d == nil {
		return
	}
	if residual != nil {
		t.give(residual, d.Retain())
	}
	t.give(x, d)
}

// normGrad is the gradient of the normalised input, dsum included.
func (l *layerNorm) normGrad(t *Tape, sum, dsum, dout, mean, rstd *tensor.Tensor) *tensor.Tensor {
	defer dout.Release()
	dx := t.alloc(l.name, sum.Shape()...)
	if dx == nil {
		return nil
	}
	accumulate := l.gamma.beta() == 1
	l.beta.beta()
	t.check(l.name, t.dev.LayerNormGrad(device.LayerNormGradArgs{
		DX: dx, DOut: dout, DSum: dsum, X: sum, Gamma: l.gamma.Value, Mean: mean, Rstd: rstd,
		DGamma: l.gamma.Grad, DBeta: l.beta.Grad, Accumulate: accumulate,
	}))
	return dx
}
