package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/tensor"
)

// bench makes operands for benchmarks.
type bench struct {
	testing.TB
	*cpu.Device
}

func newBench(b testing.TB) bench {
	return bench{b, open(b, "auto")}
}

func (b bench) float(shape ...int) device.T {
	b.Helper()
	t, err := b.Alloc("t", tensor.Float32, shape...)
	b.ok(err)
	rng := rand.New(rand.NewPCG(1, uint64(t.Len())))
	raw := make([]byte, t.Bytes())
	for i := range t.Len() {
		binary.NativeEndian.PutUint32(raw[4*i:], math.Float32bits(0.1*(2*rng.Float32()-1)))
	}
	b.ok(b.Upload(t, raw))
	return t
}

func (b bench) ints(limit int, shape ...int) device.T {
	b.Helper()
	t, err := b.Alloc("i", tensor.Int32, shape...)
	b.ok(err)
	raw := make([]byte, t.Bytes())
	for i := range t.Len() {
		binary.NativeEndian.PutUint32(raw[4*i:], uint32(i*7919%limit))
	}
	b.ok(b.Upload(t, raw))
	return t
}

func (b bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// loop runs op and reports, beside the mean, the shortest run, which tells more
// on a machine that others use too; and its rate, when flops is given.
func (b bench) loop(tb *testing.B, flops float64, op func() error) {
	best := time.Hour
	for tb.Loop() {
		begin := time.Now()
		b.ok(op())
		best = min(best, time.Since(begin))
	}
	tb.ReportMetric(float64(best.Nanoseconds())/1e3, "best-µs")
	if flops > 0 {
		tb.ReportMetric(flops/float64(best.Nanoseconds()), "GFLOP/s")
	}
}

func BenchmarkMatMul(tb *testing.B) {
	for _, c := range []struct {
		name    string
		m, n, k int
		act     device.Activation
		pre     bool
	}{
		{"MLP1", 64, 512, 784, device.ReLU, false},
		{"MLP2", 64, 512, 512, device.ReLU, false},
		{"QKV", 1024, 384, 128, device.Identity, false},
		{"Project", 1024, 128, 128, device.Identity, false},
		{"Expand", 1024, 512, 128, device.GELUTanh, true},
		{"Contract", 1024, 128, 512, device.Identity, false},
		{"Head", 1024, 256, 128, device.Identity, false},
	} {
		flops := 2 * float64(c.m*c.n*c.k)
		tb.Run(c.name+"/forward", func(tb *testing.B) {
			b := newBench(tb)
			a := device.MatMulArgs{Out: b.float(c.m, c.n), A: b.float(c.m, c.k), B: b.float(c.n, c.k), TransB: true, Bias: b.float(c.n), Act: c.act}
			if c.pre {
				a.Pre = b.float(c.m, c.n)
			}
			b.loop(tb, flops, func() error { return b.MatMul(a) })
		})
		tb.Run(c.name+"/input", func(tb *testing.B) {
			b := newBench(tb)
			a := device.MatMulArgs{Out: b.float(c.m, c.k), A: b.float(c.m, c.n), B: b.float(c.n, c.k)}
			b.loop(tb, flops, func() error { return b.MatMul(a) })
		})
		tb.Run(c.name+"/weight", func(tb *testing.B) {
			b := newBench(tb)
			a := device.MatMulArgs{Out: b.float(c.n, c.k), A: b.float(c.m, c.n), TransA: true, B: b.float(c.m, c.k)}
			b.loop(tb, flops, func() error { return b.MatMul(a) })
		})
	}
	tb.Run("ExpandGrad", func(tb *testing.B) {
		b := newBench(tb)
		a := device.MatMulArgs{Out: b.float(1024, 512), A: b.float(1024, 128), B: b.float(128, 512), GradOf: device.GELUTanh, GradAt: b.float(1024, 512)}
		b.loop(tb, 2*1024*512*128, func() error { return b.MatMul(a) })
	})
}

func BenchmarkAttention(tb *testing.B) {
	for _, grad := range []bool{false, true} {
		tb.Run(map[bool]string{false: "forward", true: "backward"}[grad], func(tb *testing.B) {
			b := newBench(tb)
			a := device.AttentionArgs{Out: b.float(1024, 128), QKV: b.float(1024, 384), LSE: b.float(8, 4, 128), Batch: 8, Tokens: 128, Heads: 4, Causal: true}
			b.ok(b.Attention(a))
			g := device.AttentionGradArgs{
				DQKV: b.float(1024, 384), DOut: b.float(1024, 128), QKV: a.QKV, Out: a.Out, LSE: a.LSE, Batch: 8, Tokens: 128, Heads: 4, Causal: true,
			}
			b.loop(tb, 0, func() error {
				if grad {
					return b.AttentionGrad(g)
				}
				return b.Attention(a)
			})
		})
	}
}

func BenchmarkLayerNorm(tb *testing.B) {
	b := newBench(tb)
	a := device.LayerNormArgs{
		Out: b.float(1024, 128), X: b.float(1024, 128), Residual: b.float(1024, 128), Sum: b.float(1024, 128),
		Gamma: b.float(128), Beta: b.float(128), Mean: b.float(1024), Rstd: b.float(1024), Eps: 1e-5,
	}
	g := device.LayerNormGradArgs{
		DX: b.float(1024, 128), DOut: a.Out, DSum: a.X, X: a.Sum, Gamma: a.Gamma, Mean: a.Mean, Rstd: a.Rstd, DGamma: b.float(128), DBeta: b.float(128),
	}
	tb.Run("forward", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.LayerNorm(a) })
	})
	tb.Run("backward", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.LayerNormGrad(g) })
	})
}

func BenchmarkCrossEntropy(tb *testing.B) {
	b := newBench(tb)
	a := device.CrossEntropyArgs{Logits: b.float(1024, 256), Targets: b.ints(256, 1024), Loss: b.float(1), DLogits: b.float(1024, 256), Scale: 1.0 / 1024}
	b.loop(tb, 0, func() error { return b.CrossEntropy(a) })
}

func BenchmarkConv(tb *testing.B) {
	b := newBench(tb)
	flops := 2 * 32 * 16 * 16 * 9 * 28 * 28.0
	a := device.Conv2DArgs{Out: b.float(32, 16, 28, 28), X: b.float(32, 16, 28, 28), Weight: b.float(16, 16, 3, 3), Bias: b.float(16), Kernel: 3, Stride: 1, Padding: 1}
	g := device.Conv2DGradArgs{
		DX: b.float(32, 16, 28, 28), DWeight: b.float(16, 16, 3, 3), DBias: b.float(16), DOut: a.Out, X: a.X, Weight: a.Weight, Kernel: 3, Stride: 1, Padding: 1,
	}
	tb.Run("forward", func(tb *testing.B) {
		b.loop(tb, flops, func() error { return b.Conv2D(a) })
	})
	tb.Run("backward", func(tb *testing.B) {
		b.loop(tb, 2*flops, func() error { return b.Conv2DGrad(g) })
	})
}

func BenchmarkBatchNorm(tb *testing.B) {
	b := newBench(tb)
	a := device.BatchNormArgs{
		Out: b.float(32, 16, 28, 28), X: b.float(32, 16, 28, 28), Gamma: b.float(16), Beta: b.float(16), Mean: b.float(16), Rstd: b.float(16),
		RunningMean: b.float(16), RunningVar: b.float(16), Training: true, Eps: 1e-5, Momentum: 0.1,
	}
	g := device.BatchNormGradArgs{
		DX: b.float(32, 16, 28, 28), DOut: a.Out, X: a.X, Gamma: a.Gamma, Mean: a.Mean, Rstd: a.Rstd, DGamma: b.float(16), DBeta: b.float(16),
	}
	tb.Run("forward", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.BatchNorm(a) })
	})
	tb.Run("backward", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.BatchNormGrad(g) })
	})
}

func BenchmarkPool(tb *testing.B) {
	b := newBench(tb)
	a := device.PoolArgs{Out: b.float(32, 16, 14, 14), X: b.float(32, 16, 28, 28), Index: b.ints(1, 32, 16, 14, 14), Kernel: 2, Stride: 2, Max: true}
	b.loop(tb, 0, func() error { return b.Pool(a) })
}

func BenchmarkDropout(tb *testing.B) {
	b := newBench(tb)
	a := device.DropoutArgs{Out: b.float(1024, 128), X: b.float(1024, 128), P: 0.1, Seed: 1}
	b.loop(tb, 0, func() error { return b.Dropout(a) })
}

func BenchmarkOptimizer(tb *testing.B) {
	b := newBench(tb)
	list := func() []device.T { return []device.T{b.float(1 << 20)} }
	adam := device.AdamArgs{
		Params: list(), Grads: list(), Moment1: list(), Moment2: list(), LR: 1e-9, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
		WeightDecay: []float32{0.01}, Decoupled: true, Step: 1, GradScale: 1,
	}
	b.ok(b.Zero(adam.Moment2[0])) // roots of negative numbers are slow
	sgd := device.SGDArgs{Params: adam.Params, Grads: adam.Grads, Momentum: list(), LR: 1e-9, Mu: 0.9, GradScale: 1}
	tb.Run("AdamW", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.Adam(adam) })
	})
	tb.Run("SGD", func(tb *testing.B) {
		b.loop(tb, 0, func() error { return b.SGD(sgd) })
	})
	tb.Run("SumSquares", func(tb *testing.B) {
		b.loop(tb, 0, func() error { _, err := b.SumSquares(adam.Params); return err })
	})
}
