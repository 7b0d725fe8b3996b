//go:build cuda

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/device/cuda"
	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
	"github.com/ddprun/ddprun/worker/device/devicetest"
	"github.com/ddprun/ddprun/worker/tensor"
)

func open(t testing.TB, o cuda.Options) *cuda.Device {
	t.Helper()
	d, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // the second time it does nothing
	return d
}

// TestDevice holds the GPU to the contract that the CPU device keeps.
func TestDevice(t *testing.T) {
	open(t, cuda.Options{}) // keeps the context, which is slow to make
	devicetest.Run(t, func(t *testing.T) device.Device { return open(t, cuda.Options{}) }, devicetest.Float32)
}

// TestDeviceSync is the same with every kernel waited for.
func TestDeviceSync(t *testing.T) {
	if testing.Short() {
		t.Skip("TestDevice in another mode")
	}
	open(t, cuda.Options{})
	devicetest.Run(t, func(t *testing.T) device.Device { return open(t, cuda.Options{Sync: true}) }, devicetest.Float32)
}

// TestDeviceFused lets cuBLASLt apply activations, whose tanh is less exact.
func TestDeviceFused(t *testing.T) {
	open(t, cuda.Options{})
	devicetest.Run(t, func(t *testing.T) device.Device { return open(t, cuda.Options{FuseActivations: true}) }, devicetest.Tolerance{Abs: 1e-3, Rel: 1e-3})
}

// TestDeviceBenchmark measures algorithms; any must be right.
func TestDeviceBenchmark(t *testing.T) {
	open(t, cuda.Options{})
	devicetest.Run(t, func(t *testing.T) device.Device { return open(t, cuda.Options{Benchmark: true}) }, devicetest.Float32)
}

func TestDescribe(t *testing.T) {
	d := open(t, cuda.Options{})
	t.Log(d.Describe())
	for _, words := range []string{"cuda:0", "sm_", "GiB", "cuBLASLt", "fp32"} {
		if !strings.Contains(d.Describe(), words) {
			t.Errorf("the banner lacks %q", words)
		}
	}
	if err := d.Warm(); err != nil {
		t.Errorf("loading all kernels: %v", err)
	}
}

func TestNoSuchGPU(t *testing.T) {
	if _, err := cuda.Open(cuda.Options{Index: 1000}); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("GPU 1000: %v", err)
	}
}

// bench is a device with a fixed stream of random numbers.
type bench struct {
	testing.TB
	device.Device
	rng *rand.Rand
}

func newBench(t testing.TB, d device.Device) *bench {
	return &bench{t, d, rand.New(rand.NewPCG(7, 8))}
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// float is a tensor of random numbers between -1 and 1.
func (b *bench) float(shape ...int) device.T {
	b.Helper()
	t, err := b.Alloc("t", tensor.Float32, shape...)
	b.ok(err)
	raw := make([]byte, t.Bytes())
	for i := range t.Len() {
		binary.NativeEndian.PutUint32(raw[4*i:], math.Float32bits(2*b.rng.Float32()-1))
	}
	b.ok(b.Upload(t, raw))
	return t
}

// below is a tensor of random whole numbers from 0 to limit-1.
func (b *bench) below(limit int, shape ...int) device.T {
	b.Helper()
	t, err := b.Alloc("index", tensor.Int32, shape...)
	b.ok(err)
	raw := make([]byte, t.Bytes())
	for i := range t.Len() {
		binary.NativeEndian.PutUint32(raw[4*i:], uint32(b.rng.IntN(limit)))
	}
	b.ok(b.Upload(t, raw))
	return t
}

func (b *bench) zeroed(dtype tensor.DType, shape ...int) device.T {
	b.Helper()
	t, err := b.Alloc("zero", dtype, shape...)
	b.ok(err)
	b.ok(b.Zero(t))
	return t
}

func (b *bench) read(t device.T) []float32 {
	b.Helper()
	raw := make([]byte, t.Bytes())
	b.ok(b.Download(raw, t))
	out := make([]float32, t.Len())
	for i := range out {
		out[i] = math.Float32frombits(binary.NativeEndian.Uint32(raw[4*i:]))
	}
	return out
}

// far is the largest difference, as a part of the largest number.
func far(got, want []float32) float64 {
	var most, size float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		most, size = max(most, d), max(size, math.Abs(float64(want[i])))
	}
	return most / max(size, 1e-6)
}

// TestAsTheCPU computes each operator on both devices, on random data of the
// sizes of real models, and compares all results.
func TestAsTheCPU(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: runtime.NumCPU()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gpu := open(t, cuda.Options{})
	defer func() { t.Logf("cuBLASLt has no algorithm for %d of the products", gpu.Unsupported()) }()
	for _, op := range largeOperators {
		t.Run(op.name, func(t *testing.T) {
			x, y := newBench(t, c), newBench(t, gpu)
			want, got := op.run(x), op.run(y)
			for i := range want {
				if f := far(y.read(got[i]), x.read(want[i])); f > op.within {
					t.Errorf("result %d is %.2g away, at most %.2g is allowed", i, f, op.within)
				} else {
					t.Logf("result %d is %.2g away", i, f)
				}
			}
		})
	}
}

type largeOperator struct {
	name   string
	within float64
	run    func(b *bench) []device.T
}

var largeOperators = []largeOperator{
	{"matmul", 2e-5, func(b *bench) []device.T {
		a := device.MatMulArgs{Out: b.float(256, 768), A: b.float(256, 512), B: b.float(768, 512), TransB: true, Bias: b.float(768), Act: device.GELU, Pre: b.float(256, 768)}
		b.ok(b.MatMul(a))
		g := device.MatMulArgs{Out: b.float(768, 512), A: a.Out, B: a.A, TransA: true}
		b.ok(b.MatMul(g))
		db := b.float(768)
		b.ok(b.BiasGrad(db, a.Out, false))
		return []device.T{a.Out, a.Pre, g.Out, db}
	}},
	{"odd views", 2e-5, func(b *bench) []device.T {
		// Gradients begin anywhere in a bucket, so nothing is aligned.
		bucket := b.float(1 + 100*77 + 77)
		w, err := bucket.Slice(1, 100, 77)
		b.ok(err)
		db, err := bucket.Slice(1+100*77, 77)
		b.ok(err)
		x, dout := b.float(333, 100), b.float(333, 77)
		b.ok(b.MatMul(device.MatMulArgs{Out: w, A: x, B: dout, TransA: true, Beta: 1}))
		b.ok(b.BiasGrad(db, dout, true))
		out := b.float(333, 77)
		b.ok(b.MatMul(device.MatMulArgs{Out: out, A: x, B: w, Bias: db}))
		return []device.T{bucket, out}
	}},
	{"layernorm", 2e-5, func(b *bench) []device.T {
		const rows, n = 1000, 768
		a := device.LayerNormArgs{
			Out: b.float(rows, n), X: b.float(rows, n), Residual: b.float(rows, n), Sum: b.float(rows, n),
			Gamma: b.float(n), Beta: b.float(n), Mean: b.float(rows), Rstd: b.float(rows), Eps: 1e-5,
		}
		b.ok(b.LayerNorm(a))
		g := device.LayerNormGradArgs{
			DX: b.float(rows, n), DOut: b.float(rows, n), DSum: b.float(rows, n), X: a.Sum, Gamma: a.Gamma, Mean: a.Mean, Rstd: a.Rstd,
			DGamma: b.float(n), DBeta: b.float(n), Accumulate: true,
		}
		b.ok(b.LayerNormGrad(g))
		return []device.T{a.Out, a.Sum, a.Mean, a.Rstd, g.DX, g.DGamma, g.DBeta}
	}},
	{"attention", 5e-5, func(b *bench) []device.T { return attend(b, 2, 200, 3, 64, true) }},
	{"attention, all see all", 5e-5, func(b *bench) []device.T { return attend(b, 2, 130, 2, 64, false) }},
	{"attention, large heads", 5e-5, func(b *bench) []device.T { return attend(b, 1, 100, 2, 128, true) }},
	{"attention, odd heads", 5e-5, func(b *bench) []device.T { return attend(b, 3, 77, 2, 40, true) }},
	{"cross-entropy", 2e-5, func(b *bench) []device.T {
		const rows, n = 300, 5003
		a := device.CrossEntropyArgs{
			Logits: b.float(rows, n), Targets: b.below(n, rows), Loss: b.zeroed(tensor.Float32, 1), Correct: b.zeroed(tensor.Int32, 1),
			DLogits: b.float(rows, n), Scale: 1.0 / rows,
		}
		b.ok(b.CrossEntropy(a))
		return []device.T{a.Loss, a.DLogits}
	}},
	{"embedding", 2e-5, func(b *bench) []device.T {
		const rows, n, vocab, tokens = 5000, 96, 50, 100 // 50 entries: some have hundreds of rows
		a := device.EmbeddingArgs{Out: b.float(rows, n), Table: b.float(vocab, n), Position: b.float(tokens, n), Index: b.below(vocab, rows), Tokens: tokens}
		b.ok(b.Embedding(a))
		g := device.EmbeddingGradArgs{DOut: b.float(rows, n), Index: a.Index, DTable: b.float(vocab, n), DPosition: b.float(tokens, n), Tokens: tokens}
		b.ok(b.EmbeddingGrad(g))
		return []device.T{a.Out, g.DTable, g.DPosition}
	}},
	{"embedding of few entries", 2e-5, func(b *bench) []device.T {
		// More than 2048 rows of one entry.
		g := device.EmbeddingGradArgs{DOut: b.float(9000, 40), Index: b.below(3, 9000), DTable: b.float(50000, 40)}
		b.ok(b.EmbeddingGrad(g))
		return []device.T{g.DTable}
	}},
	{"convolution", 3e-5, func(b *bench) []device.T {
		x, w, bias := b.float(16, 16, 32, 32), b.float(24, 16, 3, 3), b.float(24)
		out := b.float(16, 24, 16, 16)
		b.ok(b.Conv2D(device.Conv2DArgs{Out: out, X: x, Weight: w, Bias: bias, Kernel: 3, Stride: 2, Padding: 1}))
		g := device.Conv2DGradArgs{
			DX: b.float(16, 16, 32, 32), DWeight: b.float(24, 16, 3, 3), DBias: b.float(24), DOut: b.float(16, 24, 16, 16),
			X: x, Weight: w, Kernel: 3, Stride: 2, Padding: 1, Accumulate: true,
		}
		b.ok(b.Conv2DGrad(g))
		return []device.T{out, g.DX, g.DWeight, g.DBias}
	}},
	{"batchnorm", 3e-5, func(b *bench) []device.T {
		a := device.BatchNormArgs{
			Out: b.float(32, 20, 14, 14), X: b.float(32, 20, 14, 14), Gamma: b.float(20), Beta: b.float(20), RunningMean: b.float(20), RunningVar: b.float(20),
			Mean: b.float(20), Rstd: b.float(20), Eps: 1e-5, Momentum: 0.1, Training: true,
		}
		b.ok(b.BatchNorm(a))
		g := device.BatchNormGradArgs{
			DX: b.float(32, 20, 14, 14), DOut: b.float(32, 20, 14, 14), X: a.X, Gamma: a.Gamma, Mean: a.Mean, Rstd: a.Rstd, DGamma: b.float(20), DBeta: b.float(20),
		}
		b.ok(b.BatchNormGrad(g))
		return []device.T{a.Out, a.RunningMean, a.RunningVar, a.Mean, a.Rstd, g.DX, g.DGamma, g.DBeta}
	}},
	{"pool", 1e-6, func(b *bench) []device.T {
		x, out, index := b.float(8, 12, 31, 29), b.float(8, 12, 15, 14), b.zeroed(tensor.Int32, 8, 12, 15, 14)
		b.ok(b.Pool(device.PoolArgs{Out: out, X: x, Index: index, Kernel: 3, Stride: 2, Max: true}))
		dx, dout := b.float(8, 12, 31, 29), b.float(8, 12, 15, 14)
		b.ok(b.PoolGrad(device.PoolGradArgs{DX: dx, DOut: dout, Index: index, Kernel: 3, Stride: 2, Max: true}))
		return []device.T{out, dx}
	}},
	{"dropout", 0, func(b *bench) []device.T {
		x := b.float(123457)
		b.ok(b.Dropout(device.DropoutArgs{Out: x, X: x, P: 0.3, Seed: 1 << 40, Offset: 1<<33 + 5}))
		return []device.T{x}
	}},
	{"optimizers", 2e-6, func(b *bench) []device.T {
		params, grads := []device.T{b.float(70001), b.float(3), b.float(40, 1000)}, []device.T{b.float(70001), b.float(3), b.float(40, 1000)}
		m, v := []device.T{b.zeroed(tensor.Float32, 70001), b.zeroed(tensor.Float32, 3), b.zeroed(tensor.Float32, 40000)}, []device.T{b.zeroed(tensor.Float32, 70001), b.zeroed(tensor.Float32, 3), b.zeroed(tensor.Float32, 40000)}
		for step := range 3 {
			b.ok(b.SGD(device.SGDArgs{Params: params, Grads: grads, LR: 0.1, WeightDecay: 0.01, GradScale: 0.5}))
			b.ok(b.Adam(device.AdamArgs{
				Params: params, Grads: grads, Moment1: m, Moment2: v, LR: 0.01, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
				WeightDecay: []float32{0.1, 0, 0.2}, Decoupled: true, Step: step + 1, GradScale: 1,
			}))
		}
		return append(append(params, m...), v...)
	}},
}

func attend(b *bench, batch, tokens, heads, size int, causal bool) []device.T {
	rows, width := batch*tokens, heads*size
	a := device.AttentionArgs{Out: b.float(rows, width), QKV: b.float(rows, 3*width), LSE: b.float(batch, heads, tokens), Batch: batch, Tokens: tokens, Heads: heads, Causal: causal}
	b.ok(b.Attention(a))
	g := device.AttentionGradArgs{
		DQKV: b.float(rows, 3*width), DOut: b.float(rows, width), QKV: a.QKV, Out: a.Out, LSE: a.LSE, Batch: batch, Tokens: tokens, Heads: heads, Causal: causal,
	}
	b.ok(b.AttentionGrad(g))
	return []device.T{a.Out, a.LSE, g.DQKV}
}

// TestReproducible: the same operands give the same bits, in every operator.
func TestReproducible(t *testing.T) {
	gpu := open(t, cuda.Options{})
	for _, op := range largeOperators {
		first := newBench(t, gpu)
		var want [][]float32
		for _, r := range op.run(first) {
			want = append(want, first.read(r))
		}
		for range 3 {
			again := newBench(t, gpu)
			for i, r := range op.run(again) {
				for j, v := range again.read(r) {
					if math.Float32bits(v) != math.Float32bits(want[i][j]) {
						t.Fatalf("%s: result %d, element %d is %g, was %g", op.name, i, j, v, want[i][j])
					}
				}
			}
		}
	}
}

// TestMixedDevices wants the tensor, its device and the operator named.
func TestMixedDevices(t *testing.T) {
	gpu := newBench(t, open(t, cuda.Options{}))
	c, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	host, err := c.Alloc("batch", tensor.Float32, 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	here := gpu.float(4, 4)
	for op, err := range map[string]error{
		"add":    gpu.Add(here, here, host),
		"matmul": gpu.MatMul(device.MatMulArgs{Out: here, A: host, B: here}),
		"copy":   gpu.Copy(here, host),
		"sgd":    gpu.SGD(device.SGDArgs{Params: []device.T{here}, Grads: []device.T{host}}),
	} {
		for _, words := range []string{op + ": ", "batch", "is on cpu", "runs on cuda:0"} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: the error lacks %q: %v", op, words, err)
			}
		}
	}
	if err := c.Add(host, host, here); err == nil || !strings.Contains(err.Error(), "cuda:0") {
		t.Errorf("a GPU tensor on the CPU: %v", err)
	}
}

// TestLargeTransfers moves more than the pinned memory holds, both ways, and
// many small uploads with work in between.
func TestLargeTransfers(t *testing.T) {
	gpu := newBench(t, open(t, cuda.Options{}))
	sent := make([]byte, 100<<20)
	for i := 0; i < len(sent); i += 8 {
		binary.NativeEndian.PutUint64(sent[i:], gpu.rng.Uint64())
	}
	x, err := gpu.Alloc("x", tensor.Int32, len(sent)/4)
	gpu.ok(err)
	gpu.ok(gpu.Upload(x, sent))
	got := make([]byte, len(sent))
	gpu.ok(gpu.Download(got, x))
	if !bytes.Equal(got, sent) {
		t.Fatal("100 MiB came back different")
	}
	x.Release()

	sum, one := gpu.zeroed(tensor.Float32, 1000), gpu.zeroed(tensor.Float32, 1000)
	raw := make([]byte, 4000)
	for i := range 2000 {
		for j := range 1000 {
			binary.NativeEndian.PutUint32(raw[4*j:], math.Float32bits(float32(i+j)))
		}
		gpu.ok(gpu.Upload(one, raw)) // overwritten while the GPU may still fetch the one before
		gpu.ok(gpu.Add(sum, sum, one))
	}
	for j, v := range gpu.read(sum) {
		if want := float32(2000*1999/2 + 2000*j); v != want {
			t.Fatalf("element %d of the sum is %g, want %g", j, v, want)
		}
	}
}

// TestInputs uploads on the copy stream while operators run, and releases the
// inputs while operators still read them.
func TestInputs(t *testing.T) {
	d := open(t, cuda.Options{})
	gpu := newBench(t, d)
	sum := gpu.zeroed(tensor.Float32, 1<<20)
	raw := make([]byte, 4<<20)
	for i := range 50 {
		for j := range 1 << 20 {
			binary.NativeEndian.PutUint32(raw[4*j:], math.Float32bits(float32(i)))
		}
		x, err := d.AllocInput("input", tensor.Float32, 1<<20)
		gpu.ok(err)
		gpu.ok(d.Upload(x, raw))
		gpu.ok(d.Add(sum, sum, x))
		x.Release()
	}
	for j, v := range gpu.read(sum) {
		if v != 50*49/2 {
			t.Fatalf("element %d of the sum is %g, want %d", j, v, 50*49/2)
		}
	}
	gpu.ok(d.Synchronize())
}

// TestFaults: numbers out of range are named by the next call that waits, and
// the device lives on.
func TestFaults(t *testing.T) {
	gpu := newBench(t, open(t, cuda.Options{}))
	index := gpu.below(100, 50)
	index.Name = "tokens"
	table := gpu.float(10, 8)
	table.Name = "wte.weight"
	for _, c := range []struct {
		op   string
		call func() error
		want []string
	}{
		{"embedding", func() error {
			return gpu.Embedding(device.EmbeddingArgs{Out: gpu.float(50, 8), Table: table, Index: index})
		}, []string{"embedding: index", "tokens", "10 rows of wte.weight"}},
		{"embedding gradient", func() error {
			return gpu.EmbeddingGrad(device.EmbeddingGradArgs{DOut: gpu.float(50, 8), DTable: table, Index: index})
		}, []string{"embedding gradient: index", "tokens", "10 rows of wte.weight"}},
		{"cross-entropy", func() error {
			return gpu.CrossEntropy(device.CrossEntropyArgs{Logits: gpu.float(50, 10), Targets: index, Scale: 1, DLogits: gpu.float(50, 10)})
		}, []string{"cross-entropy: target", "tokens", "10 classes"}},
		{"pool gradient", func() error {
			return gpu.PoolGrad(device.PoolGradArgs{DX: gpu.float(50, 1, 2, 2), DOut: gpu.float(50, 1, 1, 1), Index: index, Kernel: 2, Stride: 2, Max: true})
		}, []string{"pool gradient: Index tokens", "4 elements"}},
	} {
		gpu.ok(c.call())
		err := gpu.Synchronize()
		for _, words := range c.want {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: the error lacks %q: %v", c.op, words, err)
			}
		}
		if err := gpu.Synchronize(); err != nil {
			t.Errorf("%s: the error stays: %v", c.op, err)
		}
	}
	gpu.ok(gpu.Add(table, table, table))
	gpu.ok(gpu.Synchronize())
}

// TestOutOfMemory fills what an allocator may have and wants the report.
func TestOutOfMemory(t *testing.T) {
	d := open(t, cuda.Options{Allocator: allocator.Options{Limit: 256 << 20}})
	var held []device.T
	for range 3 {
		x, err := d.Alloc("h.0.mlp.c_fc", tensor.Float32, 16<<20)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, x)
	}
	_, err := d.Alloc("logits", tensor.Float32, 32<<20)
	var oom *allocator.OutOfMemory
	if !errors.As(err, &oom) {
		t.Fatalf("no report: %v", err)
	}
	t.Log(err)
	for _, words := range []string{"logits", "out of memory on cuda:0", "128.00 MiB", "h.0.mlp.c_fc 192.00 MiB in 3 tensors", "batch_size", "limit is 256.00 MiB"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the report lacks %q", words)
		}
	}
	for _, x := range held {
		x.Release()
	}
	if _, err := d.Alloc("logits", tensor.Float32, 32<<20); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if !strings.Contains(d.Memory().Summary(false), "CUDA OOMs: 1") {
		t.Errorf("the summary does not count it:\n%s", d.Memory().Summary(false))
	}
}

// TestReallyOutOfMemory asks for more than any GPU has.
func TestReallyOutOfMemory(t *testing.T) {
	d := open(t, cuda.Options{})
	_, err := d.Alloc("vast", tensor.Float32, 1<<38)
	var oom *allocator.OutOfMemory
	if !errors.As(err, &oom) || oom.Total == 0 {
		t.Fatalf("1 TiB: %v", err)
	}
	t.Log(err)
	gpu := newBench(t, d)
	x := gpu.float(10)
	gpu.ok(d.Add(x, x, x))
	gpu.ok(d.Synchronize())
}

// TestReleaseElsewhere releases tensors on other goroutines while the device
// allocates, as a loader does.
func TestReleaseElsewhere(t *testing.T) {
	d := open(t, cuda.Options{})
	var wg sync.WaitGroup
	for i := range 2000 {
		alloc := d.Alloc
		if i%2 == 0 {
			alloc = d.AllocInput
		}
		x, err := alloc("x", tensor.Float32, 1+i%3000)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(x.Release)
	}
	wg.Wait()
	if got := d.Stats().Allocated; got != 0 {
		t.Errorf("%d bytes are allocated after all were released", got)
	}
	if err := d.Memory().EmptyCache(); err != nil || d.Stats().Reserved != 0 {
		t.Errorf("after EmptyCache %d bytes are reserved, %v", d.Stats().Reserved, err)
	}
}

// TestNoGrowth runs a step's operators thousands of times: memory of device
// and host must not grow.
func TestNoGrowth(t *testing.T) {
	d := open(t, cuda.Options{})
	b := newBench(t, d)
	x, w, bias, y, dw := b.float(64, 128), b.float(128, 256), b.float(256), b.float(64, 256), b.float(128, 256)
	m, v := b.zeroed(tensor.Float32, 128, 256), b.zeroed(tensor.Float32, 128, 256)
	targets, loss, raw := b.below(256, 64), b.zeroed(tensor.Float32, 1), make([]byte, x.Bytes())
	step := func(i int) {
		b.ok(b.Upload(x, raw))
		h, err := b.Alloc("h", tensor.Float32, 64, 256)
		b.ok(err)
		b.ok(b.MatMul(device.MatMulArgs{Out: h, A: x, B: w, Bias: bias, Act: device.GELUTanh, Pre: y}))
		b.ok(b.CrossEntropy(device.CrossEntropyArgs{Logits: h, Targets: targets, Loss: loss, DLogits: h, Scale: 1}))
		b.ok(b.MatMul(device.MatMulArgs{Out: dw, A: x, B: h, TransA: true}))
		h.Release()
		b.ok(b.Adam(device.AdamArgs{Params: []device.T{w}, Grads: []device.T{dw}, Moment1: []device.T{m}, Moment2: []device.T{v}, LR: 1e-4, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Step: i + 1, GradScale: 1}))
		_, err = b.SumSquares([]device.T{dw})
		b.ok(err)
	}
	b.float(12 << 20).Release() // goes once around the ring of pinned memory, so that all its pages are there
	for i := range 200 {
		step(i)
	}
	reserved, resident := d.Stats().Reserved, residentKiB(t)
	for i := range 2000 {
		step(i)
	}
	if got := d.Stats().Reserved; got != reserved {
		t.Errorf("%d bytes of the device are reserved after 2,000 steps, %d before", got, reserved)
	}
	if got := residentKiB(t); got > resident+32<<10 {
		t.Errorf("the process has %d KiB resident after 2,000 steps, %d before", got, resident)
	}
}

func residentKiB(t *testing.T) int {
	t.Helper()
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// TestLaunchesTakeNothing: operators allocate nothing on the Go heap.
func TestLaunchesTakeNothing(t *testing.T) {
	b := newBench(t, open(t, cuda.Options{}))
	x, y, z, w := b.float(64, 64), b.float(64, 64), b.float(64, 64), b.float(64)
	for name, op := range map[string]func() error{
		"add":       func() error { return b.Add(x, x, y) },
		"matmul":    func() error { return b.MatMul(device.MatMulArgs{Out: z, A: x, B: y, Bias: w}) },
		"layernorm": func() error { return b.LayerNorm(device.LayerNormArgs{Out: z, X: x, Gamma: w, Beta: w}) },
		"sgd": func() error {
			return b.SGD(device.SGDArgs{Params: []device.T{x}, Grads: []device.T{y}})
		},
	} {
		b.ok(op())
		if n := testing.AllocsPerRun(100, func() { b.ok(op()) }); n > 2 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}

// TestGraph captures a few operators and runs them again.
func TestGraph(t *testing.T) {
	d := open(t, cuda.Options{})
	b := newBench(t, d)
	x, one := b.zeroed(tensor.Float32, 1000), b.zeroed(tensor.Float32, 1000)
	b.ok(b.Upload(one, bytes.Repeat(binary.NativeEndian.AppendUint32(nil, math.Float32bits(1)), 1000)))
	step := func() error { return d.Add(x, x, one) }
	b.ok(step()) // 1
	g, err := d.Capture(step)
	b.ok(err)
	b.ok(d.Synchronize())
	if v := b.read(x)[0]; v != 1 {
		t.Errorf("after the capture x is %g: it ran", v)
	}
	for range 10 {
		b.ok(g.Launch())
	}
	if v := b.read(x)[999]; v != 11 {
		t.Errorf("after ten launches x is %g, want 11", v)
	}
	b.ok(g.Close())
	wrong := errors.New("changed my mind")
	if _, err := d.Capture(func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("a capture that fails: %v", err)
	}
	b.ok(step())
	b.ok(d.Synchronize())
}

// TestHandles uses the GPU as NCCL's group does: other streams and threads,
// ordered by events.
func TestHandles(t *testing.T) {
	d := open(t, cuda.Options{})
	b := newBench(t, d)
	h := d.Handles()
	const bytes = 4 << 20
	x := b.float(bytes / 4)
	want := b.read(x)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := h.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			mem, err := h.AllocHost(bytes)
			if err != nil {
				t.Error(err)
				return
			}
			addr, err := h.Alloc(bytes)
			if err != nil {
				t.Error(err)
				return
			}
			start, errStart := h.NewEvent(true)
			end, errEnd := h.NewEvent(true)
			for _, err := range []error{
				errStart, errEnd,
				h.RecordEvent(start, h.ComputeStream()), h.StreamWaitEvent(s, start),
				h.CopyToHost(mem, x.Addr(), s), h.CopyToDevice(addr, mem, s), h.RecordEvent(end, s),
			} {
				if err != nil {
					t.Error(err)
				}
			}
			for done := false; !done && err == nil; runtime.Gosched() {
				done, err = h.EventDone(end)
			}
			if err != nil {
				t.Error(err)
			}
			if took, err := h.EventElapsed(start, end); err != nil || took <= 0 {
				t.Errorf("elapsed %v, %v", took, err)
			}
			for i, v := range want {
				if math.Float32frombits(binary.NativeEndian.Uint32(mem[4*i:])) != v {
					t.Errorf("element %d is wrong", i)
					break
				}
			}
			for _, err := range []error{h.FreeEvent(start), h.FreeEvent(end), h.FreeStream(s), h.FreeHost(mem), h.Free(addr)} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
