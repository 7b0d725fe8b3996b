package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// MaxHead is the largest size of an attention head.
const MaxHead = 128

// Heads is the geometry of a checked attention.
type Heads struct{ Batch, Tokens, Heads, Size int }

// Width is the length of a row of Out.
func (h Heads) Width() int { return h.Heads * h.Size }

// Attention checks the operands of Ops.Attention.
func Attention(p tensor.Place, a device.AttentionArgs) (Heads, error) {
	c := check{place: p, op: "attention"}
	h := c.heads(a.QKV, a.Batch, a.Tokens, a.Heads)
	c.matrix("Out", a.Out, h.Batch*h.Tokens, h.Width())
	c.optVector("LSE", a.LSE, h.Batch*h.Heads*h.Tokens)
	c.apart("Out", a.Out, "QKV", a.QKV)
	return h, c.err
}

// AttentionGrad checks the operands of Ops.AttentionGrad.
func AttentionGrad(p tensor.Place, a device.AttentionGradArgs) (Heads, error) {
	c := check{place: p, op: "attention gradient"}
	h := c.heads(a.QKV, a.Batch, a.Tokens, a.Heads)
	c.matrix("DQKV", a.DQKV, h.Batch*h.Tokens, 3*h.Width())
	c.matrix("DOut", a.DOut, h.Batch*h.Tokens, h.Width())
	c.matrix("Out", a.Out, h.Batch*h.Tokens, h.Width())
	c.vector("LSE", a.LSE, h.Batch*h.Heads*h.Tokens)
	c.apart("DQKV", a.DQKV, "QKV", a.QKV)
	c.apart("DQKV", a.DQKV, "DOut", a.DOut)
	c.apart("DQKV", a.DQKV, "Out", a.Out)
	return h, c.err
}

func (c *check) heads(qkv T, batch, tokens, n int) Heads {
	c.positive("Batch", batch)
	c.positive("Tokens", tokens)
	c.positive("Heads", n)
	if !c.float("QKV", qkv) {
		return Heads{}
	}
	rows, cols := fold(qkv)
	if rows != batch*tokens || cols == 0 || cols%(3*n) != 0 {
		c.fail("QKV %s is %v, want [%d*%d, 3*width] with a width that %d heads divide", qkv.Name, qkv.Shape(), batch, tokens, n)
	}
	h := Heads{Batch: batch, Tokens: tokens, Heads: n, Size: cols / 3 / n}
	if h.Size > MaxHead {
		c.fail("QKV %s is %v: a head of %d is larger than %d, the most that the cuda device has kernels for", qkv.Name, qkv.Shape(), h.Size, MaxHead)
	}
	// The grid's second dimension is one head of one sequence.
	if batch*n > maxGridY {
		c.fail("%d sequences of %d heads are more than the %d that one launch takes", batch, n, maxGridY)
	}
	c.counts("a dimension", tokens, cols)
	return h
}

const maxGridY = 65535

// CrossEntropy returns the folded shape of Logits.
func CrossEntropy(p tensor.Place, a device.CrossEntropyArgs) (rows, n int, err error) {
	c := check{place: p, op: "cross-entropy"}
	if c.float("Logits", a.Logits) {
		rows, n = fold(a.Logits)
	}
	c.ints("Targets", a.Targets, rows)
	c.optVector("Loss", a.Loss, 1)
	if a.Correct != nil {
		c.ints("Correct", a.Correct, 1)
	}
	c.optMatrix("DLogits", a.DLogits, rows, n)
	c.sameOrApart("DLogits", a.DLogits, "Logits", a.Logits)
	c.counts("a dimension", rows, n)
	return rows, n, c.err
}

// Lookup is the geometry of a checked embedding.
type Lookup struct{ Rows, N, Vocab int }

// Embedding checks the operands of Ops.Embedding.
func Embedding(p tensor.Place, a device.EmbeddingArgs) (Lookup, error) {
	c := check{place: p, op: "embedding"}
	g := c.lookup("Out", a.Out, a.Index, "Table", a.Table, "Position", a.Position, a.Tokens)
	c.apart("Out", a.Out, "Table", a.Table)
	c.apart("Out", a.Out, "Position", a.Position)
	return g, c.err
}

// EmbeddingGrad checks the operands of Ops.EmbeddingGrad.
func EmbeddingGrad(p tensor.Place, a device.EmbeddingGradArgs) (Lookup, error) {
	c := check{place: p, op: "embedding gradient"}
	g := c.lookup("DOut", a.DOut, a.Index, "DTable", a.DTable, "DPosition", a.DPosition, a.Tokens)
	c.apart("DOut", a.DOut, "DTable", a.DTable)
	c.apart("DOut", a.DOut, "DPosition", a.DPosition)
	return g, c.err
}

func (c *check) lookup(rowsRole string, out, index T, tableRole string, table T, posRole string, position T, tokens int) (g Lookup) {
	if c.float(rowsRole, out) {
		g.Rows, g.N = fold(out)
	}
	c.ints("Index", index, g.Rows)
	g.Vocab = c.tableOf(tableRole, table, g.N)
	if position != nil {
		c.positive("Tokens", tokens)
		if have := c.tableOf(posRole, position, g.N); c.err == nil && have < tokens {
			c.fail("%s %s has %d rows, Tokens is %d", posRole, position.Name, have, tokens)
		}
	}
	c.counts("a dimension", g.Rows, g.N, g.Vocab)
	return g
}

// tableOf wants a matrix of n columns and returns its rows.
func (c *check) tableOf(role string, t T, n int) int {
	if !c.float(role, t) {
		return 0
	}
	rows, cols := fold(t)
	if cols != n {
		c.fail("%s %s is %v, want %d columns", role, t.Name, t.Shape(), n)
	}
	return rows
}
