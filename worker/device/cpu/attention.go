package cpu

import (
	"math"

	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// queryRows is the number of query rows whose scores are held at once. Larger
// blocks make better matrix products, smaller ones skip more of what the
// causal mask forbids.
const queryRows = 64

// heads is the geometry of a checked attention.
type heads struct {
	batch, tokens, heads int
	size                 int // of a head
	width                int // heads*size
	causal               bool
	scale                float32
}

// Attention goes over blocks of query rows of each head: scores of the block
// against all keys it may see, softmax, weighted sum of the values. Scores are
// never kept; backward makes them again from the saved LSE.
func (d *Device) Attention(a device.AttentionArgs) error {
	c := d.check("attention")
	h := c.heads(a.QKV, a.Batch, a.Tokens, a.Heads, a.Causal)
	c.matrix("Out", a.Out, h.batch*h.tokens, h.width)
	c.optVector("LSE", a.LSE, h.batch*h.heads*h.tokens)
	c.apart("Out", a.Out, "QKV", a.QKV)
	if c.err != nil {
		return c.err
	}
	scores, err := d.workspace(h.blockRows() * h.tokens)
	if err != nil {
		return err
	}
	for b := range h.batch {
		for head := range h.heads {
			var lse []float32
			if a.LSE != nil {
				lse = floats(a.LSE)[(b*h.heads+head)*h.tokens:][:h.tokens]
			}
			q, k, v := h.parts(floats(a.QKV), b, head)
			d.attendHead(h, q, k, v, floats(a.Out)[h.outAt(b, head):], lse, scores)
		}
	}
	return d.failed(c.op)
}

// attendHead computes one head of one sequence. The slices begin at its first
// element and have the strides of the packed tensors.
func (d *Device) attendHead(h heads, q, k, v, out, lse, scores []float32) {
	ld := 3 * h.width
	for i0 := 0; i0 < h.tokens; i0 += h.blockRows() {
		rows, keys := h.block(i0)
		d.gemm(false, true, rows, keys, h.size, h.scale, q[i0*ld:], ld, k, ld, 0, scores, keys)
		for r := range rows {
			row := scores[r*keys : (r+1)*keys]
			seen := h.seen(i0+r, keys)
			_, total := simd.SoftmaxRow(row[:seen], row[:seen])
			clear(row[seen:])
			if lse != nil {
				lse[i0+r] = total
			}
		}
		d.gemm(false, false, rows, h.size, keys, 1, scores, keys, v, ld, 0, out[i0*h.width:], h.width)
	}
}

// block is the number of query rows from row i0 on, and of the keys that any
// of them may see.
func (h heads) block(i0 int) (rows, keys int) {
	rows = min(h.blockRows(), h.tokens-i0)
	if h.causal {
		return rows, i0 + rows
	}
	return rows, h.tokens
}

func (h heads) blockRows() int { return min(queryRows, h.tokens) }

// seen is the number of keys that query row i may see, of keys.
func (h heads) seen(i, keys int) int {
	if h.causal {
		return i + 1
	}
	return keys
}

// parts are the first elements of a head's queries, keys and values; their
// rows are 3*width apart.
func (h heads) parts(qkv []float32, b, head int) (q, k, v []float32) {
	at := b*h.tokens*3*h.width + head*h.size
	return qkv[at:], qkv[at+h.width:], qkv[at+2*h.width:]
}

// outAt is the place of a head's first element in Out.
func (h heads) outAt(b, head int) int { return b*h.tokens*h.width + head*h.size }

// heads checks the packed operand and returns the geometry.
func (c *check) heads(qkv T, batch, tokens, n int, causal bool) heads {
	c.positive("Batch", batch)
	c.positive("Tokens", tokens)
	c.positive("Heads", n)
	if !c.float("QKV", qkv) {
		return heads{}
	}
	rows, cols := fold(qkv)
	if rows != batch*tokens || cols == 0 || cols%(3*n) != 0 {
		c.fail("QKV %s is %v, want [%d*%d, 3*width] with a width that %d heads divide", qkv.Name, qkv.Shape(), batch, tokens, n)
	}
	w := cols / 3
	return heads{
		batch: batch, tokens: tokens, heads: n, size: w / n, width: w, causal: causal,
		scale: float32(1 / math.Sqrt(float64(w/n))),
	}
}
