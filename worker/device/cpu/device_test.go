package cpu_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/device/cpu/blas"
	"github.com/ddprun/ddprun/worker/device/devicetest"
	"github.com/ddprun/ddprun/worker/tensor"
)

func TestDevice(t *testing.T) {
	for _, library := range []string{"auto", "gonum"} {
		t.Run(library, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device { return open(t, library) }, devicetest.Float32)
		})
	}
}

func open(t testing.TB, library string) *cpu.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{BLAS: library})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestNewErrors(t *testing.T) {
	if _, err := cpu.New(cpu.Options{BLAS: "no-such-library.so"}); err == nil || !strings.Contains(err.Error(), "no-such-library.so") {
		t.Errorf("unknown library: %v", err)
	}
	if _, err := cpu.New(cpu.Options{Threads: -1}); err == nil {
		t.Error("-1 threads: no error")
	}
}

func TestDescribe(t *testing.T) {
	if got := open(t, "gonum").Describe(); !strings.Contains(got, "gonum") || !strings.Contains(got, "threads 1") {
		t.Errorf("the banner says %q", got)
	}
}

func TestAllocAligned(t *testing.T) {
	d := open(t, "gonum")
	for n := range 200 {
		x, err := d.Alloc("x", tensor.Float32, n+1)
		if err != nil {
			t.Fatal(err)
		}
		if x.Addr()%64 != 0 {
			t.Fatalf("%d elements are at %#x", n+1, x.Addr())
		}
	}
}

// noProduct multiplies nothing, or fails: what it does is not counted.
type noProduct struct {
	blas.Provider
	err error
}

func (p noProduct) SGEMM(bool, bool, int, int, int, float32, []float32, int, []float32, int, float32, []float32, int) error {
	return p.err
}

// TestProductRefused wants a product's error from the operator, and that the
// next one starts afresh.
func TestProductRefused(t *testing.T) {
	b := bench{t, cpu.NewWith(noProduct{err: errors.New("too large")})}
	defer func() { b.ok(b.Close()) }()
	x, qkv, image := b.float(4, 4), b.float(4, 12), b.float(1, 1, 4, 4)
	for name, op := range map[string]func() error{
		"matmul": func() error { return b.MatMul(device.MatMulArgs{Out: b.float(4, 4), A: x, B: x}) },
		"attention": func() error {
			return b.Attention(device.AttentionArgs{Out: x, QKV: qkv, Batch: 1, Tokens: 4, Heads: 2})
		},
		"attention gradient": func() error {
			return b.AttentionGrad(device.AttentionGradArgs{DQKV: b.float(4, 12), DOut: x, QKV: qkv, Out: x, LSE: b.float(8), Batch: 1, Tokens: 4, Heads: 2})
		},
		"conv2d": func() error {
			return b.Conv2D(device.Conv2DArgs{Out: b.float(1, 1, 4, 4), X: image, Weight: b.float(1, 1, 1, 1), Kernel: 1, Stride: 1})
		},
		"conv2d gradient": func() error {
			return b.Conv2DGrad(device.Conv2DGradArgs{DX: b.float(1, 1, 4, 4), DOut: image, Weight: b.float(1, 1, 1, 1), Kernel: 1, Stride: 1})
		},
	} {
		if err := op(); err == nil || !strings.Contains(err.Error(), name+": too large") {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Add(x, x, x); err != nil {
			t.Errorf("%s left its error: %v", name, err)
		}
	}
}

// TestSteadyState runs operators again and again: they must take nothing from
// the system and nothing from the Go heap.
func TestSteadyState(t *testing.T) {
	b := bench{t, cpu.NewWith(noProduct{})}
	defer func() { b.ok(b.Close()) }()
	qkv, dqkv, out, lse := b.float(128, 48), b.float(128, 48), b.float(128, 16), b.float(2, 2, 64)
	image, dimage, weight, dweight := b.float(2, 3, 8, 8), b.float(2, 3, 8, 8), b.float(3, 3, 3, 3), b.float(3, 3, 3, 3)
	w, row, square, square2 := b.float(16), b.float(128), b.float(16, 16), b.float(128, 16)
	targets, loss := b.ints(16, 128), b.float(1)
	list := []device.T{square, w}
	for name, op := range map[string]func() error{
		"matmul": func() error {
			return b.MatMul(device.MatMulArgs{Out: square2, A: out, B: square, Bias: w, Act: device.GELU})
		},
		"attention": func() error {
			return b.Attention(device.AttentionArgs{Out: out, QKV: qkv, LSE: lse, Batch: 2, Tokens: 64, Heads: 2, Causal: true})
		},
		"attention gradient": func() error {
			return b.AttentionGrad(device.AttentionGradArgs{DQKV: dqkv, DOut: square2, QKV: qkv, Out: out, LSE: lse, Batch: 2, Tokens: 64, Heads: 2})
		},
		"conv2d": func() error {
			return b.Conv2D(device.Conv2DArgs{Out: dimage, X: image, Weight: weight, Kernel: 3, Stride: 1, Padding: 1})
		},
		"conv2d gradient": func() error {
			return b.Conv2DGrad(device.Conv2DGradArgs{DX: dimage, DWeight: dweight, DOut: image, Weight: weight, X: image, Kernel: 3, Stride: 1, Padding: 1})
		},
		"layernorm": func() error {
			return b.LayerNorm(device.LayerNormArgs{Out: square2, X: out, Gamma: w, Beta: w, Mean: row, Rstd: row, Eps: 1})
		},
		"cross-entropy": func() error {
			return b.CrossEntropy(device.CrossEntropyArgs{Logits: square2, Targets: targets, Loss: loss, DLogits: square2, Scale: 1})
		},
		"sgd": func() error { return b.SGD(device.SGDArgs{Params: list, Grads: list, LR: 0.1, GradScale: 1}) },
	} {
		b.ok(op())
		before := b.Stats().Reserved
		if n := testing.AllocsPerRun(5, func() { b.ok(op()) }); n != 0 {
			t.Errorf("%s allocates %g times on the Go heap", name, n)
		}
		if after := b.Stats().Reserved; after != before {
			t.Errorf("%s took %d bytes from the system", name, after-before)
		}
	}
}

// TestReleaseElsewhere releases tensors on other goroutines while the device
// allocates, as a loader does.
func TestReleaseElsewhere(t *testing.T) {
	d := open(t, "gonum")
	var wg sync.WaitGroup
	for i := range 1000 {
		x, err := d.Alloc("x", tensor.Float32, 1+i%300)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(x.Release)
	}
	wg.Wait()
	if got := d.Stats().Allocated; got != 0 {
		t.Errorf("%d bytes are allocated after all were released", got)
	}
}

func TestClosed(t *testing.T) {
	d := open(t, "gonum")
	x, err := d.Alloc("late", tensor.Float32, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	x.Release()
	if _, err := d.Alloc("after", tensor.Float32, 1); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Alloc after Close: %v", err)
	}
	if got := d.Stats(); got.Allocated != 0 || got.Reserved != 0 {
		t.Errorf("statistics after Close: %+v", got)
	}
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestNoMemory asks for more than an address space holds.
func TestNoMemory(t *testing.T) {
	d := open(t, "gonum")
	if runtime.GOOS != "linux" {
		t.Skip("the Go heap ends the process instead")
	}
	_, err := d.Alloc("vast", tensor.Float32, 1<<20, 1<<27)
	if err == nil || !strings.Contains(err.Error(), "vast") || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("512 TiB: %v", err)
	}
	if got := d.Stats(); got.Allocated != 0 || got.Reserved != 0 {
		t.Errorf("statistics after the refusal: %+v", got)
	}
}
