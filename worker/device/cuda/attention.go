//go:build cuda

package cuda

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// padded is the head size of the kernel that serves a size.
func padded(size int) int {
	for _, n := range []int{16, 32, 64} {
		if size <= n {
			return n
		}
	}
	return operand.MaxHead
}

// attentionKernel is the name of a kernel for heads of a size.
func attentionKernel(what string, size int) string {
	// A step asks for three of them in every layer, so they are not made anew.
	return attentionNames[what][padded(size)]
}

var attentionNames = func() map[string]map[int]string {
	names := map[string]map[int]string{}
	for _, what := range []string{"attention", "attention_grad_q", "attention_grad_kv"} {
		names[what] = map[int]string{}
		for _, n := range []int{16, 32, 64, 128} {
			names[what][n] = fmt.Sprintf("ddp_%s_f32_d%d", what, n)
		}
	}
	return names
}()

// Attention computes blocks of query rows against all keys that they see, with
// the softmax made as the keys go by; scores are never in memory.
func (d *Device) Attention(a device.AttentionArgs) error {
	h, err := operand.Attention(d.place, a)
	if err != nil {
		return err
	}
	rows, threads := 64, 256
	if padded(h.Size) == 128 {
		rows, threads = 32, 128
	}
	return d.start("attention", attentionKernel("attention", h.Size)).tensors(a.Out, a.LSE, a.QKV).
		ints(h.Batch, h.Tokens, h.Heads, h.Size).flag(a.Causal).floats(scale(h)).
		grid(ceil(h.Tokens, rows), h.Batch*h.Heads).block(threads, 1).run()
}

// AttentionGrad makes the probabilities again from LSE: once by query rows for
// dq, once by keys for dk and dv, so that every sum has one owner.
func (d *Device) AttentionGrad(a device.AttentionGradArgs) error {
	const op = "attention gradient"
	h, err := operand.AttentionGrad(d.place, a)
	if err != nil {
		return err
	}
	lines := h.Batch * h.Heads * h.Tokens
	delta, err := d.temp(op, 4*lines)
	if err != nil {
		return err
	}
	defer d.drop(delta)
	err = d.start(op, "ddp_attention_delta_f32").addr(delta).tensors(a.DOut, a.Out).ints(h.Batch, h.Tokens, h.Heads, h.Size).rows(lines).run()
	if err != nil {
		return err
	}
	for _, what := range [...]string{"attention_grad_q", "attention_grad_kv"} {
		err := d.start(op, attentionKernel(what, h.Size)).tensors(a.DQKV, a.DOut, a.QKV, a.LSE).addr(delta).
			ints(h.Batch, h.Tokens, h.Heads, h.Size).flag(a.Causal).floats(scale(h)).
			grid(ceil(h.Tokens, 32), h.Batch*h.Heads).block(128, 1).run()
		if err != nil {
			return err
		}
	}
	return nil
}

func scale(h operand.Heads) float32 { return float32(1 / math.Sqrt(float64(h.Size))) }
