package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// linear is a matrix product with a weight, its bias and an activation.
type linear struct {
	weight     *Param
	bias       *Param // nil: none
	transposed bool   // weight is [out in], as torch.nn.Linear has it; otherwise [in out], as GPT-2 has it
	act        device.Activation
}

func (l *linear) out() int {
	if l.transposed {
		return l.weight.Shape[0]
	}
	return l.weight.Shape[1]
}

func (l *linear) params() []*Param {
	if l.bias == nil {
		return []*Param{l.weight}
	}
	return []*Param{l.weight, l.bias}
}

// forward maps [rows in] to [rows out].
func (l *linear) forward(t *Tape, x *Var) *Var {
	if t.failed() {
		return dead()
	}
	rows, n := x.Value.Rows(), l.out()
	y := t.alloc(l.weight.Name, rows, n)
	args := device.MatMulArgs{Out: y, A: x.Value, B: l.weight.Value, TransB: l.transposed, Act: l.act}
	if l.bias != nil {
		args.Bias = l.bias.Value
	}
	var pre *tensor.Tensor
	if t.record && (l.act == device.GELU || l.act == device.GELUTanh) {
		pre = t.alloc(l.weight.Name, rows, n)
		args.Pre = pre
	}
	if t.failed() {
		return dead()
	}
	t.check(l.weight.Name, t.dev.MatMul(args))
	out := t.output(y, true)
	out.act, out.actAt = l.act, y
	if pre != nil {
		out.actAt = pre
	}
	out.kept = l.act == device.ReLU
	t.push(node{
		name: l.weight.Name, outs: []*Var{out}, saved: []*tensor.Tensor{pre}, params: l.params(),
		back: func() { l.backward(t, x, out) },
	}, []*Var{x})
	return out
}

func (l *linear) backward(t *Tape, x, out *Var) {
	dy, writable := out.take()
	defer func() { dy.Release() }()
	if l.act != device.Identity && !out.actDone {
		dy = l.throughActivation(t, dy, writable, out.actAt)
		if t.failed() {
			return
		}
	}
	dw := device.MatMulArgs{Out: l.weight.Grad, A: x.Value, TransA: true, B: dy}
	if l.transposed {
		dw.A, dw.B = dy, x.Value
	}
	dw.Beta = l.weight.beta()
	t.check(l.weight.Name, t.dev.MatMul(dw))
	if l.bias != nil {
		t.check(l.bias.Name, t.dev.BiasGrad(l.bias.Grad, dy, l.bias.beta() == 1))
	}
	if x.needs {
		t.give(x, l.inputGrad(t, x, dy))
	}
}

// throughActivation multiplies dy by the activation's derivative and returns
// the result in dy's place.
func (l *linear) throughActivation(t *Tape, dy *tensor.Tensor, writable bool, at *tensor.Tensor) *tensor.Tensor {
	d := dy
	if !writable {
		if d = t.alloc(l.weight.Name, dy.Shape()...); d == nil {
			return dy
		}
	}
	t.check(l.weight.Name, t.dev.ActivateGrad(d, dy, at, l.act))
	if d != dy {
		dy.Release()
	}
	return d
}

// inputGrad is dy times the weight; where x came out of a fused activation
// and nothing else reads it, the product takes the derivative along.
func (l *linear) inputGrad(t *Tape, x *Var, dy *tensor.Tensor) *tensor.Tensor {
	dx := t.alloc(l.weight.Name, x.Value.Shape()...)
	if dx == nil {
		return nil
	}
	args := device.MatMulArgs{Out: dx, A: dy, B: l.weight.Value, TransB: !l.transposed}
	if x.act != device.Identity && x.uses == 1 {
		args.GradOf, args.GradAt = x.act, x.actAt
		x.actDone = true
	}
	t.check(l.weight.Name, t.dev.MatMul(args))
	return dx
}
