package cpu_test

import (
	"testing"

	"github.com/ddprun/ddprun/worker/device"
)

// The benchmarks of this file are whole training steps made of operators, with
// nothing of the engine around them: what a step can cost at best.

// weight is a parameter with its gradient and optimiser state.
type weight struct{ p, g, m, v device.T }

// model collects parameters.
type model struct {
	bench
	all []weight
}

func (m *model) weight(shape ...int) weight {
	w := weight{m.float(shape...), m.float(shape...), m.float(shape...), m.float(shape...)}
	m.ok(m.Zero(w.m))
	m.ok(m.Zero(w.v))
	m.all = append(m.all, w)
	return w
}

// linear is a layer with weights [out in], as PyTorch has them.
type linear struct {
	w, b     weight
	x, out   device.T // input and output of the forward
	dx       device.T // nil: not wanted
	pre      device.T
	act      device.Activation
	noBias   bool
	in, outs int
}

func (m *model) linear(in, out int) *linear {
	return &linear{w: m.weight(out, in), b: m.weight(out), in: in, outs: out}
}

func (m *model) forward(l *linear, x device.T) device.T {
	l.x = x
	a := device.MatMulArgs{Out: l.out, A: x, B: l.w.p, TransB: true, Act: l.act, Pre: l.pre}
	if !l.noBias {
		a.Bias = l.b.p
	}
	m.ok(m.MatMul(a))
	return l.out
}

// backward takes the gradient of the product before the activation, and gives
// that of the input through the activation that made it.
func (m *model) backward(l *linear, dout device.T, of device.Activation, at device.T) device.T {
	m.ok(m.MatMul(device.MatMulArgs{Out: l.w.g, A: dout, TransA: true, B: l.x}))
	if !l.noBias {
		m.ok(m.BiasGrad(l.b.g, dout, false))
	}
	if l.dx != nil {
		m.ok(m.MatMul(device.MatMulArgs{Out: l.dx, A: dout, B: l.w.p, GradOf: of, GradAt: at}))
	}
	return l.dx
}

func (m *model) lists() (p, g, m1, m2 []device.T) {
	for _, w := range m.all {
		p, g, m1, m2 = append(p, w.p), append(g, w.g), append(m1, w.m), append(m2, w.v)
	}
	return
}

// BenchmarkMLPStep is 784-512-512-10, batch 64, SGD with momentum.
func BenchmarkMLPStep(tb *testing.B) {
	m := &model{bench: newBench(tb)}
	const rows = 64
	x, targets := m.float(rows, 784), m.ints(10, rows)
	l1, l2, l3 := m.linear(784, 512), m.linear(512, 512), m.linear(512, 10)
	l1.act, l2.act = device.ReLU, device.ReLU
	l1.out, l2.out, l3.out = m.float(rows, 512), m.float(rows, 512), m.float(rows, 10)
	l2.dx, l3.dx = m.float(rows, 512), m.float(rows, 512)
	loss := m.float(1)
	p, g, momentum, _ := m.lists()
	m.loop(tb, 0, func() error {
		logits := m.forward(l3, m.forward(l2, m.forward(l1, x)))
		m.ok(m.CrossEntropy(device.CrossEntropyArgs{Logits: logits, Targets: targets, Loss: loss, DLogits: logits, Scale: 1.0 / rows}))
		d := m.backward(l3, logits, device.ReLU, l2.out)
		d = m.backward(l2, d, device.ReLU, l1.out)
		m.backward(l1, d, device.Identity, nil)
		return m.SGD(device.SGDArgs{Params: p, Grads: g, Momentum: momentum, LR: 1e-6, Mu: 0.9, GradScale: 1})
	})
}

// gptBlock is a pre-norm transformer block.
type gptBlock struct {
	gamma1, beta1, gamma2, beta2 weight
	qkv, proj, expand, contract  *linear
	sum1, sum2, n1, n2           device.T
	mean1, rstd1, mean2, rstd2   device.T
	attn, lse                    device.T
}

const (
	gptBatch, gptTokens, gptHeads, gptWidth, gptVocab = 8, 128, 4, 128, 256
	gptRows                                           = gptBatch * gptTokens
)

func (m *model) block() *gptBlock {
	const r, w = gptRows, gptWidth
	b := &gptBlock{
		gamma1: m.weight(w), beta1: m.weight(w), gamma2: m.weight(w), beta2: m.weight(w),
		qkv: m.linear(w, 3*w), proj: m.linear(w, w), expand: m.linear(w, 4*w), contract: m.linear(4*w, w),
		sum1: m.float(r, w), sum2: m.float(r, w), n1: m.float(r, w), n2: m.float(r, w),
		mean1: m.float(r), rstd1: m.float(r), mean2: m.float(r), rstd2: m.float(r),
		attn: m.float(r, w), lse: m.float(gptBatch, gptHeads, gptTokens),
	}
	b.qkv.out, b.proj.out, b.expand.out, b.contract.out = m.float(r, 3*w), m.float(r, w), m.float(r, 4*w), m.float(r, w)
	b.expand.pre, b.expand.act = m.float(r, 4*w), device.GELUTanh
	b.qkv.dx, b.proj.dx, b.expand.dx, b.contract.dx = m.float(r, w), m.float(r, w), m.float(r, w), m.float(r, 4*w)
	return b
}

// BenchmarkGPTStep is 4 layers of width 128, batch 8 of 128 tokens, AdamW.
func BenchmarkGPTStep(tb *testing.B) {
	m := &model{bench: newBench(tb)}
	const r, w = gptRows, gptWidth
	index, targets := m.ints(gptVocab, r), m.ints(gptVocab, r)
	wte, wpe := m.weight(gptVocab, w), m.weight(gptTokens, w)
	blocks := []*gptBlock{m.block(), m.block(), m.block(), m.block()}
	gamma, beta := m.weight(w), m.weight(w)
	head := m.linear(w, gptVocab)
	head.noBias, head.out, head.dx = true, m.float(r, gptVocab), m.float(r, w)
	x, sum, norm, mean, rstd, loss := m.float(r, w), m.float(r, w), m.float(r, w), m.float(r), m.float(r), m.float(1)
	dres, dqkv := m.float(r, w), m.float(r, 3*w)
	p, g, m1, m2 := m.lists()
	layerNorm := func(out, x, residual, sum, mean, rstd device.T, gamma, beta weight) {
		m.ok(m.LayerNorm(device.LayerNormArgs{Out: out, X: x, Residual: residual, Sum: sum, Gamma: gamma.p, Beta: beta.p, Mean: mean, Rstd: rstd, Eps: 1e-5}))
	}
	layerNormGrad := func(dx, dout, dsum, x, mean, rstd device.T, gamma, beta weight) {
		m.ok(m.LayerNormGrad(device.LayerNormGradArgs{DX: dx, DOut: dout, DSum: dsum, X: x, Gamma: gamma.p, Mean: mean, Rstd: rstd, DGamma: gamma.g, DBeta: beta.g}))
	}
	m.loop(tb, 0, func() error {
		m.ok(m.Embedding(device.EmbeddingArgs{Out: x, Table: wte.p, Index: index, Position: wpe.p, Tokens: gptTokens}))
		var branch device.T
		stream := x
		for _, b := range blocks {
			if branch == nil {
				layerNorm(b.n1, stream, nil, nil, b.mean1, b.rstd1, b.gamma1, b.beta1)
			} else {
				layerNorm(b.n1, branch, stream, b.sum1, b.mean1, b.rstd1, b.gamma1, b.beta1)
				stream = b.sum1
			}
			m.forward(b.qkv, b.n1)
			m.ok(m.Attention(device.AttentionArgs{Out: b.attn, QKV: b.qkv.out, LSE: b.lse, Batch: gptBatch, Tokens: gptTokens, Heads: gptHeads, Causal: true}))
			layerNorm(b.n2, m.forward(b.proj, b.attn), stream, b.sum2, b.mean2, b.rstd2, b.gamma2, b.beta2)
			stream = b.sum2
			branch = m.forward(b.contract, m.forward(b.expand, b.n2))
		}
		layerNorm(norm, branch, stream, sum, mean, rstd, gamma, beta)
		logits := m.forward(head, norm)
		m.ok(m.CrossEntropy(device.CrossEntropyArgs{Logits: logits, Targets: targets, Loss: loss, DLogits: logits, Scale: 1.0 / r}))
		m.backward(head, logits, device.Identity, nil)
		layerNormGrad(dres, head.dx, nil, sum, mean, rstd, gamma, beta)
		for i := len(blocks) - 1; i >= 0; i-- {
			b := blocks[i]
			m.backward(b.contract, dres, device.GELUTanh, b.expand.pre)
			m.backward(b.expand, b.contract.dx, device.Identity, nil)
			layerNormGrad(dres, b.expand.dx, dres, b.sum2, b.mean2, b.rstd2, b.gamma2, b.beta2)
			m.backward(b.proj, dres, device.Identity, nil)
			m.ok(m.AttentionGrad(device.AttentionGradArgs{
				DQKV: dqkv, DOut: b.proj.dx, QKV: b.qkv.out, Out: b.attn, LSE: b.lse,
				Batch: gptBatch, Tokens: gptTokens, Heads: gptHeads, Causal: true,
			}))
			m.backward(b.qkv, dqkv, device.Identity, nil)
			in := b.sum1
			if i == 0 {
				in = x
			}
			layerNormGrad(dres, b.qkv.dx, dres, in, b.mean1, b.rstd1, b.gamma1, b.beta1)
		}
		m.ok(m.Zero(wte.g))
		m.ok(m.Zero(wpe.g))
		m.ok(m.EmbeddingGrad(device.EmbeddingGradArgs{DOut: dres, Index: index, DTable: wte.g, DPosition: wpe.g, Tokens: gptTokens}))
		return m.Adam(device.AdamArgs{
			Params: p, Grads: g, Moment1: m1, Moment2: m2, LR: 1e-6, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decoupled: true, Step: 1, GradScale: 1,
		})
	})
	tb.ReportMetric(float64(m.Stats().PeakReserved)/(1<<20), "MiB")
}
