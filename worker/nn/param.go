package nn

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Param is a trained tensor. Grad is where its gradient goes: a view into a
// bucket once worker/ddp has attached it.
type Param struct {
	Name  string
	Shape []int
	Value *tensor.Tensor
	Grad  *tensor.Tensor

	init    Initializer
	filled  bool // Grad holds something of the present step
	pending int  // uses recorded on the tape and not yet walked back
	used    bool // since ClearGrads
}

// Len is the number of elements.
func (p *Param) Len() int { return tensor.Count(p.Shape) }

// Used says whether a forward pass read the parameter since ClearGrads.
func (p *Param) Used() bool { return p.used }

// Pending says whether the tape still holds an operator that reads the
// parameter, so that its gradient is not final.
func (p *Param) Pending() bool { return p.pending > 0 }

// Filled says whether Grad holds a gradient of the present step. An unfilled
// gradient's contents are left over from an earlier one.
func (p *Param) Filled() bool { return p.filled }

// MarkFilled tells that Grad was written from outside of backward.
func (p *Param) MarkFilled() { p.filled = true }

// beta is the factor of what Grad holds for the next contribution: the first
// of a step overwrites, so that no gradient needs to be zeroed.
func (p *Param) beta() float32 {
	if p.filled {
		return 1
	}
	p.filled = true
	return 0
}

// Buffer is a tensor of the model that is saved with it but not trained, such
// as a running mean.
type Buffer struct {
	Name  string
	Shape []int
	Value *tensor.Tensor

	init Initializer
}

// Len is the number of elements.
func (b *Buffer) Len() int { return tensor.Count(b.Shape) }

// Parameters is the state of a model, in registration order: the same on every
// rank.
type Parameters struct {
	Params  []*Param
	Buffers []*Buffer

	values, buffers *tensor.Tensor
}

// FlatParams is all parameter values as one run of memory, in order.
func (ps *Parameters) FlatParams() *tensor.Tensor { return ps.values }

// FlatBuffers is all buffers as one run of memory, nil if there are none.
func (ps *Parameters) FlatBuffers() *tensor.Tensor { return ps.buffers }

// ClearGrads begins a step: every gradient counts as not there.
func (ps *Parameters) ClearGrads() {
	for _, p := range ps.Params {
		p.filled, p.used, p.pending = false, false, 0
	}
}

func (ps *Parameters) param(name string, init Initializer, shape ...int) *Param {
	p := &Param{Name: name, Shape: shape, init: init}
	ps.Params = append(ps.Params, p)
	return p
}

func (ps *Parameters) buffer(name string, init Initializer, shape ...int) *Buffer {
	b := &Buffer{Name: name, Shape: shape, init: init}
	ps.Buffers = append(ps.Buffers, b)
	return b
}

// place gives every parameter and buffer its memory on d: one run for the
// parameters and one for the buffers.
func (ps *Parameters) place(d device.Device) error {
	seen := map[string]bool{}
	total := 0
	for _, p := range ps.Params {
		if seen[p.Name] {
			return fmt.Errorf("model: two parameters are named %s", p.Name)
		}
		seen[p.Name] = true
		total += p.Len()
	}
	var err error
	if ps.values, err = d.Alloc("parameters", tensor.Float32, total); err != nil {
		return err
	}
	at := 0
	for _, p := range ps.Params {
		if p.Value, err = ps.values.Slice(at, p.Shape...); err != nil {
			return err
		}
		p.Value.Name = p.Name
		at += p.Len()
	}
	return ps.placeBuffers(d)
}

func (ps *Parameters) placeBuffers(d device.Device) error {
	total := 0
	for _, b := range ps.Buffers {
		total += b.Len()
	}
	if total == 0 {
		return nil
	}
	var err error
	if ps.buffers, err = d.Alloc("buffers", tensor.Float32, total); err != nil {
		return err
	}
	at := 0
	for _, b := range ps.Buffers {
		if b.Value, err = ps.buffers.Slice(at, b.Shape...); err != nil {
			return err
		}
		b.Value.Name = b.Name
		at += b.Len()
	}
	return nil
}
