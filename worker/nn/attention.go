package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// attention is causal multi-head attention over packed rows of q, k, v
// [batch*tokens, 3*width]; the result is [batch*tokens, width].
func attention(t *Tape, name string, qkv *Var, batch, tokens, heads int) *Var {
	if t.failed() {
		return dead()
	}
	width := qkv.Value.Dim(-1) / 3
	y := t.alloc(name, batch*tokens, width)
	lse := t.alloc(name, batch, heads, tokens)
	if t.failed() {
		return dead()
	}
	t.check(name, t.dev.Attention(device.AttentionArgs{
		Out: y, QKV: qkv.Value, LSE: lse, Batch: batch, Tokens: tokens, Heads: heads, Causal: true,
	}))
	out := t.output(y, qkv.needs)
	out.kept, qkv.kept = true, true
	t.push(node{name: name, outs: []*Var{out}, saved: []*tensor.Tensor{lse}, back: func() {
		dy, _ := out.take()
		defer dy.Release()
		d := t.alloc(name, qkv.Value.Shape()...)
		if d == nil {
			return
		}
		t.check(name, t.dev.AttentionGrad(device.AttentionGradArgs{
			DQKV: d, DOut: dy, QKV: qkv.Value, Out: out.Value, LSE: lse,
			Batch: batch, Tokens: tokens, Heads: heads, Causal: true,
		}))
		t.give(qkv, d)
	}}, []*Var{qkv})
	return out
}
