package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// activate applies an activation that could not be fused.
func activate(t *Tape, name string, x *Var, act device.Activation) *Var {
	if t.failed() {
		return dead()
	}
	y := t.alloc(name, x.Value.Shape()...)
	if y == nil {
		return dead()
	}
	t.check(name, t.dev.Activate(y, x.Value, act))
	out := t.output(y, x.needs)
	out.kept = act == device.ReLU
	x.kept = x.kept || act != device.ReLU
	t.push(node{name: name, outs: []*Var{out}, back: func() {
		dy, writable := out.take()
		at := x.Value
		if act == device.ReLU {
			at = out.Value
		}
		dx := dy
		if !writable {
			if dx = t.alloc(name, dy.Shape()...); dx == nil {
				dy.Release()
				return
			}
		}
		t.check(name, t.dev.ActivateGrad(dx, dy, at, act))
		if dx != dy {
			dy.Release()
		}
		t.give(x, dx)
	}}, []*Var{x})
	return out
}

// reshape gives x another shape without moving anything.
func reshape(t *Tape, name string, x *Var, shape ...int) *Var {
	if t.failed() {
		return dead()
	}
	v, err := x.Value.View(shape...)
	if !t.check(name, err) {
		return dead()
	}
	out := t.output(v, x.needs)
	out.kept = x.kept
	t.push(node{name: name, outs: []*Var{out}, back: func() {
		dy, _ := out.take()
		dx, err := dy.View(x.Value.Shape()...)
		dy.Release()
		if t.check(name, err) {
			t.give(x, dx)
		}
	}}, []*Var{x})
	return out
}

// dropout drops elements with probability p while training.
func dropout(t *Tape, name string, x *Var, p float32) *Var {
	if t.failed() || !t.training || p == 0 {
		return x
	}
	y := t.alloc(name, x.Value.Shape()...)
	if y == nil {
		return dead()
	}
	// Each dropout of a pass has a range of offsets of its own.
	seed, offset := t.seed, t.offset
	t.offset += uint64(x.Value.Len())
	apply := func(out, in *tensor.Tensor) {
		t.check(name, t.dev.Dropout(device.DropoutArgs{Out: out, X: in, P: p, Seed: seed, Offset: offset}))
	}
	apply(y, x.Value)
	out := t.output(y, x.needs)
	t.push(node{name: name, outs: []*Var{out}, back: func() {
		dy, writable := out.take()
		dx := dy
		if !writable {
			if dx = t.alloc(name, dy.Shape()...); dx == nil {
				dy.Release()
				return
			}
		}
		apply(dx, dy)
		if dx != dy {
			dy.Release()
		}
		t.give(x, dx)
	}}, []*Var{x})
	return out
}
