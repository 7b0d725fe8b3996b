package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// AttentionGrad computes DQKV block by block of query rows, making the
// probabilities again from LSE.
func (d *Device) AttentionGrad(a device.AttentionGradArgs) error {
	c := d.check("attention gradient")
	h := c.heads(a.QKV, a.Batch, a.Tokens, a.Heads, a.Causal)
	c.matrix("DQKV", a.DQKV, h.batch*h.tokens, 3*h.width)
	c.matrix("DOut", a.DOut, h.batch*h.tokens, h.width)
	c.matrix("Out", a.Out, h.batch*h.tokens, h.width)
	c.vector("LSE", a.LSE, h.batch*h.heads*h.tokens)
	c.apart("DQKV", a.DQKV, "QKV", a.QKV)
	c.apart("DQKV", a.DQKV, "DOut", a.DOut)
	c.apart("DQKV", a.DQKV, "Out", a.Out)
	if c.err != nil {
		return c.err
	}
	n := h.blockRows() * h.tokens
	buf, err := d.workspace(2 * n)
	if err != nil {
		return err
	}
	s := headGrad{heads: h, d: d, probs: buf[:n], grads: buf[n:]}
	for b := range h.batch {
		for head := range h.heads {
			s.q, s.k, s.v = h.parts(floats(a.QKV), b, head)
			s.dq, s.dk, s.dv = h.parts(floats(a.DQKV), b, head)
			s.dout = floats(a.DOut)[h.outAt(b, head):]
			s.lse = floats(a.LSE)[(b*h.heads+head)*h.tokens:][:h.tokens]
			s.run()
		}
	}
	return d.failed(c.op)
}

// headGrad is the backward of one head of one sequence.
type headGrad struct {
	heads
	d                   *Device
	q, k, v, dq, dk, dv []float32 // rows 3*width apart
	dout                []float32 // rows width apart
	lse                 []float32
	probs, grads        []float32 // scratch of a block: P, and dP then dS
}

// run goes over the blocks from the last to the first: the last sees all keys
// and so overwrites all of dk and dv, the others add.
func (s *headGrad) run() {
	step := s.blockRows()
	var beta float32
	for i0 := (s.tokens - 1) / step * step; i0 >= 0; i0 -= step {
		s.block(i0, beta)
		beta = 1
	}
}

func (s *headGrad) block(i0 int, beta float32) {
	rows, keys := s.heads.block(i0)
	ld, w, n := 3*s.width, s.width, s.size
	q, dout := s.q[i0*ld:], s.dout[i0*w:]
	for r := range rows {
		simd.Fill(s.probs[r*keys:(r+1)*keys], -s.lse[i0+r])
	}
	s.d.gemm(false, true, rows, keys, n, s.scale, q, ld, s.k, ld, 1, s.probs, keys)
	s.d.gemm(false, true, rows, keys, n, 1, dout, w, s.v, ld, 0, s.grads, keys)
	for r := range rows {
		lo, hi := r*keys, (r+1)*keys
		s.row(i0+r, s.probs[lo:hi], s.grads[lo:hi])
	}
	s.d.gemm(true, false, keys, n, rows, 1, s.probs, keys, dout, w, beta, s.dv, ld)
	s.d.gemm(false, false, rows, n, keys, 1, s.grads, keys, s.k, ld, 0, s.dq[i0*ld:], ld)
	s.d.gemm(true, false, keys, n, rows, 1, s.grads, keys, q, ld, beta, s.dk, ld)
}

// row turns S - lse into the probabilities P = exp(S - lse), and their
// gradient dP into the scores': dS = P * (dP - sum(P*dP)). The last sum is that
// of dout*out, which is shorter for long sequences but less exact.
func (s *headGrad) row(i int, p, g []float32) {
	seen := s.seen(i, len(p))
	simd.Exp(p[:seen], p[:seen])
	simd.SoftmaxBackwardRow(g[:seen], g[:seen], p[:seen], s.scale)
	clear(p[seen:])
	clear(g[seen:])
}
