//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// CrossEntropy computes loss, hits and gradient of each row, and then adds the
// rows' losses and hits up in order.
func (d *Device) CrossEntropy(a device.CrossEntropyArgs) error {
	const op = "cross-entropy"
	rows, n, err := operand.CrossEntropy(d.place, a)
	if err != nil || rows == 0 {
		return err
	}
	var losses, hits uintptr
	if a.Loss != nil {
		if losses, err = d.temp(op, 4*rows); err != nil {
			return err
		}
		defer d.drop(losses)
	}
	if a.Correct != nil {
		if hits, err = d.temp(op, 4*rows); err != nil {
			return err
		}
		defer d.drop(hits)
	}
	threads := min(max(ceil(ceil(n, 8), 32)*32, 32), 1024)
	err = d.start(op, "ddp_cross_entropy_f32").tensors(a.DLogits).addr(losses, hits).tensors(a.Logits, a.Targets).
		ints(rows, n).floats(a.Scale).addr(d.faults.addr).ints(d.faults.next(badTarget, a.Targets, nil, n)).
		grid(min(rows, d.props.Multiprocessors*4096/threads), 1).block(threads, 1).run()
	if err != nil || a.Loss == nil && a.Correct == nil {
		return err
	}
	return d.start(op, "ddp_cross_entropy_finish_f32").tensors(a.Loss, a.Correct).addr(losses, hits).ints(rows).block(1024, 1).run()
}

// Embedding gathers rows of the table and adds the rows' positions.
func (d *Device) Embedding(a device.EmbeddingArgs) error {
	g, err := operand.Embedding(d.place, a)
	if err != nil || a.Out.Len() == 0 {
		return err
	}
	return d.start("embedding", "ddp_embedding_f32").tensors(a.Out, a.Table, a.Position, a.Index).
		long(g.Rows).ints(g.N, g.Vocab, max(a.Tokens, 1)).addr(d.faults.addr).ints(d.faults.next(badIndex, a.Index, a.Table, g.Vocab)).
		rows(g.Rows).run()
}

// EmbeddingGrad adds rows of DOut into the table's and the positions'
// gradient, each sum in row order: lists of the rows of each entry are made
// first.
func (d *Device) EmbeddingGrad(a device.EmbeddingGradArgs) error {
	const op = "embedding gradient"
	g, err := operand.EmbeddingGrad(d.place, a)
	if err != nil || a.DOut.Len() == 0 {
		return err
	}
	scratch, err := d.temp(op, 4*(3*g.Vocab+1+g.Rows))
	if err != nil {
		return err
	}
	defer d.drop(scratch)
	count := scratch
	first := count + uintptr(4*g.Vocab)
	cursor := first + uintptr(4*(g.Vocab+1))
	list := cursor + uintptr(4*g.Vocab)
	if err := d.ctx.Set(count, 0, max(g.Vocab, 1), d.compute); err != nil {
		return d.named(op, err)
	}
	tag := d.faults.next(badRow, a.Index, a.DTable, g.Vocab)
	err = d.start(op, "ddp_embedding_count_i32").addr(count).tensors(a.Index).ints(g.Rows, g.Vocab).addr(d.faults.addr).ints(tag).over(g.Rows).run()
	if err != nil {
		return err
	}
	err = d.start(op, "ddp_embedding_scan_i32").addr(first, cursor, count).ints(g.Vocab).block(1024, 1).run()
	if err != nil {
		return err
	}
	err = d.start(op, "ddp_embedding_scatter_i32").addr(list, cursor).tensors(a.Index).ints(g.Rows, g.Vocab).over(g.Rows).run()
	if err != nil {
		return err
	}
	err = d.start(op, "ddp_embedding_grad_f32").tensors(a.DTable, a.DOut).addr(list, first).tensors(a.Index).ints(g.Rows, g.N, g.Vocab).
		grid(min(max(g.Vocab, 1), 8*d.props.Multiprocessors), ceil(g.N, 128)).block(128, 1).run()
	if err != nil || a.DPosition == nil {
		return err
	}
	return d.start(op, "ddp_embedding_position_grad_f32").tensors(a.DPosition, a.DOut).ints(g.Rows, g.N, a.Tokens).
		over(min(a.Tokens, g.Rows) * g.N).run()
}
