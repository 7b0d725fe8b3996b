package nn

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Var is a value on a tape, with its gradient while backward is under way.
type Var struct {
	Value *tensor.Tensor

	grad  *tensor.Tensor
	needs bool // a gradient is wanted
	uses  int  // operators that read it
	kept  bool // the backward of its own operator reads Value

	// An activation fused into the operator that made the value: a matrix
	// product that reads it can take the derivative in its own backward.
	act     device.Activation
	actAt   *tensor.Tensor
	actDone bool // grad is already that of the activation's input
}

// node is one recorded operator.
type node struct {
	name   string
	outs   []*Var
	saved  []*tensor.Tensor // released once walked back
	params []*Param
	back   func()
}

// Tape records one forward pass on a device.
type Tape struct {
	dev      device.Device
	record   bool
	training bool
	nodes    []node
	free     []*tensor.Tensor // values of a pass that is not recorded
	err      error

	seed   uint64 // of dropout in this pass
	offset uint64

	// OnGrad is called during Backward when a parameter's gradient is final
	// for this pass.
	OnGrad func(*Param)
}

// NewTape returns an empty tape.
func NewTape(d device.Device) *Tape { return &Tape{dev: d} }

// Train begins a recorded pass in training mode; seed makes its dropout.
func (t *Tape) Train(seed uint64) {
	t.Reset()
	t.record, t.training, t.seed = true, true, seed
}

// Evaluate begins a pass that records nothing, in evaluation mode.
func (t *Tape) Evaluate() {
	t.Reset()
	t.record, t.training = false, false
}

// Err is the first error since the pass began.
func (t *Tape) Err() error { return t.err }

// Reset gives back all memory of the pass.
func (t *Tape) Reset() {
	for i := range t.nodes {
		t.releaseNode(&t.nodes[i])
	}
	clear(t.nodes)
	t.nodes = t.nodes[:0]
	for _, x := range t.free {
		x.Release()
	}
	clear(t.free)
	t.free = t.free[:0]
	t.err, t.offset = nil, 0
}

// Input puts a tensor on the tape and takes over its reference. No gradient
// flows into it.
func (t *Tape) Input(x *tensor.Tensor) *Var {
	t.free = append(t.free, x)
	return &Var{Value: x}
}

// Backward walks the recorded operators in reverse. The tape is empty after.
func (t *Tape) Backward() error {
	for i := len(t.nodes) - 1; i >= 0 && t.err == nil; i-- {
		n := &t.nodes[i]
		if n.reached() {
			n.back()
		}
		if t.err != nil {
			t.err = fmt.Errorf("backward of %s: %w", n.name, t.err)
			break
		}
		t.releaseNode(n)
		t.settle(n.params)
		t.nodes = t.nodes[:i]
	}
	err := t.err
	t.Reset()
	return err
}

// reached says whether a gradient has come to any output.
func (n *node) reached() bool {
	for _, o := range n.outs {
		if o.grad != nil {
			return true
		}
	}
	return len(n.outs) == 0
}

// settle tells that one use of each parameter has been walked back.
func (t *Tape) settle(params []*Param) {
	for _, p := range params {
		p.pending--
		if p.pending == 0 && t.OnGrad != nil {
			t.OnGrad(p)
		}
	}
}

func (t *Tape) releaseNode(n *node) {
	for _, o := range n.outs {
		if o.grad != nil {
			o.grad.Release()
			o.grad = nil
		}
		if o.Value != nil {
			o.Value.Release()
			o.Value = nil
		}
	}
	for _, s := range n.saved {
		if s != nil {
			s.Release()
		}
	}
	*n = node{params: n.params}
}

// failed is asked by every operator first.
func (t *Tape) failed() bool { return t.err != nil }

// check keeps the first error.
func (t *Tape) check(op string, err error) bool {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s: %w", op, err)
	}
	return t.err == nil
}

// alloc returns a tensor, or nil after an error.
func (t *Tape) alloc(name string, shape ...int) *tensor.Tensor {
	return t.allocAs(name, tensor.Float32, shape...)
}

func (t *Tape) allocAs(name string, dtype tensor.DType, shape ...int) *tensor.Tensor {
	if t.err != nil {
		return nil
	}
	x, err := t.dev.Alloc(name, dtype, shape...)
	t.check(name, err)
	return x
}

// output makes the variable of an operator's result.
func (t *Tape) output(value *tensor.Tensor, needs bool) *Var {
	return &Var{Value: value, needs: needs && t.record}
}

// push records an operator that read ins and params. An operator that nothing
// will be differentiated through is not recorded; its memory waits for Reset.
func (t *Tape) push(n node, ins []*Var) {
	for _, in := range ins {
		in.uses++
	}
	if t.err == nil && t.record && n.needed() {
		for _, p := range n.params {
			p.pending++
			p.used = true
		}
		t.nodes = append(t.nodes, n)
		return
	}
	for _, o := range n.outs {
		if o.Value != nil {
			t.free = append(t.free, o.Value)
		}
	}
	for _, s := range n.saved {
		if s != nil {
			t.free = append(t.free, s)
		}
	}
}

func (n *node) needed() bool {
	for _, o := range n.outs {
		if o.needs {
			return true
		}
	}
	return len(n.params) > 0
}

// give adds g to v's gradient and takes over g's reference.
func (t *Tape) give(v *Var, g *tensor.Tensor) {
	switch {
	case g == nil:
	case !v.needs || t.err != nil:
		g.Release()
	case v.grad == nil:
		v.grad = g
	case v.grad.Shared():
		sum := t.alloc(v.grad.Name, g.Shape()...)
		if sum != nil {
			t.check("add", t.dev.Add(sum, v.grad, g))
		}
		v.grad.Release()
		g.Release()
		v.grad = sum
	default:
		t.check("add", t.dev.Add(v.grad, v.grad, g))
		g.Release()
	}
}

// take hands over v's gradient: a tensor that the caller owns, and whether it
// may write into it.
func (v *Var) take() (g *tensor.Tensor, writable bool) {
	g, v.grad = v.grad, nil
	return g, g != nil && !g.Shared()
}

// dead is what operators return after an error.
func dead() *Var { return &Var{} }
