//go:build cuda

package nccl

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// gpu is one rank's device memory and stream, through libcuda.
type gpu struct {
	t      *testing.T
	call   func(name string, args ...uintptr)
	stream uintptr
}

// openGPU makes the first device's primary context current on the test's OS
// thread.
func openGPU(t *testing.T) *gpu {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gpu{t: t, call: func(name string, args ...uintptr) {
		t.Helper()
		f, err := purego.Dlsym(lib, name)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, _ := purego.SyscallN(f, args...); uint32(code) != 0 {
			t.Fatalf("%s: error %d", name, uint32(code))
		}
	}}
	var device int32
	var context uintptr
	g.call("cuInit", 0)
	g.call("cuDeviceGet", uintptr(unsafe.Pointer(&device)), 0)
	g.call("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&context)), uintptr(device))
	g.call("cuCtxSetCurrent", context)
	g.call("cuStreamCreate", uintptr(unsafe.Pointer(&g.stream)), 1)
	return g
}

func (g *gpu) upload(at uintptr, v []float32) {
	g.t.Helper()
	g.call("cuMemcpyHtoD_v2", at, uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(4*len(v)))
}

func (g *gpu) download(at uintptr, n int) []float32 {
	g.t.Helper()
	v := make([]float32, n)
	g.call("cuStreamSynchronize", g.stream)
	g.call("cuMemcpyDtoH_v2", uintptr(unsafe.Pointer(unsafe.SliceData(v))), at, uintptr(4*n))
	return v
}

// The declarations of raw_linux.h against the real library: one rank can call
// everything.
func TestGPURealLibrary(t *testing.T) {
	g := openGPU(t)
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("NCCL %v at %s", l.Version(), l.Path())
	for _, blocking := range []bool{false, true} {
		id, err := l.UniqueID()
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		c, err := l.InitRank(t.Context(), 1, id, 0, Config{Name: "test", Blocking: blocking, MaxCTAs: 8})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("blocking %v: up after %v", blocking, time.Since(begin).Round(time.Millisecond))
		exercise(t, g, l, c)
		if err := errors.Join(c.Finalize(t.Context()), c.Destroy()); err != nil {
			t.Fatal(err)
		}
	}
}

func exercise(t *testing.T, g *gpu, l *Library, c *Comm) {
	ctx, s := t.Context(), g.stream
	a, err := l.MemAlloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.MemAlloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := c.Register(a, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	half, err := c.PreMulSum(0.5, Float32)
	if err != nil {
		t.Fatal(err)
	}
	in := []float32{1, 2, 3, 4}
	for name, call := range map[string]func() error{
		"all-reduce":     func() error { return c.AllReduce(ctx, a, b, 4, Float32, Sum, s) },
		"average":        func() error { return c.AllReduce(ctx, a, b, 4, Float32, Avg, s) },
		"broadcast":      func() error { return c.Broadcast(ctx, a, b, 4, Float32, 0, s) },
		"reduce":         func() error { return c.Reduce(ctx, a, b, 4, Float32, Max, 0, s) },
		"all-gather":     func() error { return c.AllGather(ctx, a, b, 4, Float32, s) },
		"reduce-scatter": func() error { return c.ReduceScatter(ctx, a, b, 4, Float32, Min, s) },
		"halved":         func() error { return c.AllReduce(ctx, a, b, 4, Float32, half, s) },
		"send to oneself": func() error {
			return l.Group(ctx, func() error {
				return errors.Join(c.Send(ctx, a, 4, Float32, 0, s), c.Recv(ctx, b, 4, Float32, 0, s))
			}, c)
		},
	} {
		g.upload(a, in)
		g.upload(b, make([]float32, 4))
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		factor := float32(1)
		if name == "halved" {
			factor = 0.5
		}
		for i, v := range g.download(b, 4) {
			if v != in[i]*factor {
				t.Errorf("%s: element %d is %v", name, i, v)
			}
		}
	}
	child, err := c.Split(ctx, 0, 0, Config{Blocking: c.blocking})
	if err != nil {
		t.Fatal(err)
	}
	if child.Rank() != 0 || child.Size() != 1 {
		t.Errorf("child has rank %d of %d", child.Rank(), child.Size())
	}
	err = child.AllReduce(ctx, 0, 0, 4, Float32, Op(77), s)
	var failed *CallError
	if !errors.As(err, &failed) || failed.Detail == "" {
		t.Errorf("a bad call: %v", err)
	} else {
		t.Logf("a bad call reads: %v", err)
	}
	device, err := c.Device()
	if err := errors.Join(err, child.Abort(ctx), c.DropOp(half), c.Deregister(handle), c.AsyncError(), l.MemFree(a), l.MemFree(b)); err != nil || device != 0 {
		t.Errorf("device %d: %v", device, err)
	}
}
