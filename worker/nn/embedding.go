package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// embedding looks rows up in a table, and adds the row of the place in the
// sequence when position is there.
type embedding struct {
	table    *Param
	position *Param // nil: none
}

func (e *embedding) params() []*Param {
	if e.position == nil {
		return []*Param{e.table}
	}
	return []*Param{e.table, e.position}
}

// forward maps int32 indices of batch sequences to [batch*tokens, width].
func (e *embedding) forward(t *Tape, index *tensor.Tensor, tokens int) *Var {
	if t.failed() {
		return dead()
	}
	y := t.alloc(e.table.Name, index.Len(), e.table.Shape[1])
	if y == nil {
		return dead()
	}
	args := device.EmbeddingArgs{Out: y, Table: e.table.Value, Index: index, Tokens: tokens}
	if e.position != nil {
		args.Position = e.position.Value
	}
	t.check(e.table.Name, t.dev.Embedding(args))
	out := t.output(y, true)
	t.push(node{name: e.table.Name, outs: []*Var{out}, params: e.params(), back: func() {
		dy, _ := out.take()
		defer dy.Release()
		grad := device.EmbeddingGradArgs{DOut: dy, Index: index, DTable: e.table.Grad, Tokens: tokens}
		t.clearUnfilled(e.table)
		if e.position != nil {
			t.clearUnfilled(e.position)
			grad.DPosition = e.position.Grad
		}
		t.check(e.table.Name, t.dev.EmbeddingGrad(grad))
	}}, nil)
	return out
}

// clearUnfilled zeroes a gradient that nothing has been written to yet, for
// operators that can only add.
func (t *Tape) clearUnfilled(p *Param) {
	if p.beta() == 0 {
		t.check(p.Name, t.dev.Zero(p.Grad))
	}
}
