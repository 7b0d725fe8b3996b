//go:build linux && cgo

package nccl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func initRank(t *testing.T, l *Library, cfg Config) *Comm {
	t.Helper()
	id, err := l.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.InitRank(t.Context(), 4, id, 2, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpenReadsTheVersion(t *testing.T) {
	l, _ := fake(t, "VERSION=22809")
	if l.Version() != 22809 || !strings.HasSuffix(l.Path(), soname) {
		t.Errorf("version %v at %s", l.Version(), l.Path())
	}
}

func TestOpenRefusesAnOldLibrary(t *testing.T) {
	t.Setenv("DDPRUN_NCCL", buildFake(t, "VERSION=21403"))
	_, err := Open()
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "2.14.3") {
		t.Errorf("error %v", err)
	}
}

func TestOpenPassesOverAnOldLibrary(t *testing.T) {
	old, good := buildFake(t, "VERSION=21403"), buildFake(t, "VERSION=22703")
	s := search{
		env: func(k string) string { return map[string]string{"CUDA_HOME": "/c", "CUDA_PATH": "/d"}[k] },
		glob: func(p string) []string {
			return map[string][]string{"/c/lib64/" + soname: {old}, "/d/lib64/" + soname: {good}}[p]
		},
	}
	l, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	// A libnccl.so.2 of the machine would come first.
	if l.Path() != good && l.Path() != soname {
		t.Errorf("opened %s", l.Path())
	}
}

// The configuration's size, version and tail are those that the library of
// that version expects.
func TestConfigByVersion(t *testing.T) {
	const unset = "-2147483648"
	for version, want := range map[int]string{
		21805: "bytes=48 magic=cafebeef version=21805",
		22602: "bytes=48 magic=cafebeef version=22602",
		22703: "bytes=72 magic=cafebeef version=22703",
		22809: "bytes=80 magic=cafebeef version=22809",
		23100: "bytes=80 magic=cafebeef version=22899",
	} {
		l, calls := fake(t, fmt.Sprintf("VERSION=%d", version))
		c := initRank(t, l, Config{Name: "world", MinCTAs: 2, Net: "Socket"})
		name := "world"
		if version < 22700 {
			name = "-"
		}
		line := fmt.Sprintf("init size=4 rank=2 id=good %s blocking=0 cga=%s min=2 max=%s net=Socket share=0 name=%s", want, unset, unset, name)
		if got := calls(); len(got) == 0 || got[0] != line {
			t.Errorf("version %d:\n got %q\nwant %q", version, got, line)
		}
		_ = c.Abort(t.Context())
	}
}

func TestOptionalFunctions(t *testing.T) {
	l, _ := fake(t, "VERSION=21805", "OLD")
	c := initRank(t, l, Config{})
	defer c.Abort(t.Context())
	for name, f := range map[string]func() error{
		"ncclMemAlloc 2.19.0":           func() error { _, err := l.MemAlloc(1); return err },
		"ncclMemFree 2.19.0":            func() error { return l.MemFree(1) },
		"ncclCommRegister 2.19.0":       func() error { _, err := c.Register(1, 1); return err },
		"ncclCommDeregister 2.19.0":     func() error { return c.Deregister(1) },
		"ncclCommWindowRegister 2.27.0": func() error { _, err := c.RegisterWindow(1, 1, Symmetric); return err },
	} {
		call, since, _ := strings.Cut(name, " ")
		if err := f(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), since) || !strings.Contains(err.Error(), "2.18.5") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryCallReachesTheLibrary(t *testing.T) {
	l, calls := fake(t, "VERSION=22809")
	c := initRank(t, l, Config{Blocking: true})
	ctx := t.Context()
	op, err := c.PreMulSum(0.5, Float32)
	steps := []error{
		err,
		c.AllReduce(ctx, 0x10, 0x20, 3, Float32, Sum, 0x9),
		c.AllReduce(ctx, 0x10, 0x10, 3, Bfloat16, Avg, 0x9),
		c.AllReduce(ctx, 0x10, 0x10, 3, Float32, op, 0x9),
		c.DropOp(op),
		c.Broadcast(ctx, 0x10, 0x20, 4, Uint8, 1, 0x9),
		c.Reduce(ctx, 0x10, 0x20, 5, Int64, Max, 3, 0x9),
		c.AllGather(ctx, 0x10, 0x20, 6, Int32, 0x9),
		c.ReduceScatter(ctx, 0x10, 0x20, 7, Float64, Min, 0x9),
		l.Group(ctx, func() error {
			return errors.Join(c.Send(ctx, 0x10, 8, Float16, 1, 0x9), c.Recv(ctx, 0x20, 8, Float16, 3, 0x9))
		}, c),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	at, err1 := l.MemAlloc(4096)
	handle, err2 := c.Register(at, 4096)
	window, err3 := c.RegisterWindow(at, 4096, Symmetric)
	device, err4 := c.Device()
	if err := errors.Join(err1, err2, err3, err4, c.Deregister(handle), c.DeregisterWindow(window), l.MemFree(at)); err != nil {
		t.Fatal(err)
	}
	if device != 3 || c.Rank() != 2 || c.Size() != 4 {
		t.Errorf("device %d, rank %d, size %d", device, c.Rank(), c.Size())
	}
	if err := errors.Join(c.Finalize(ctx), c.Destroy()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"premul type=7 bits=3f000000 residence=1",
		"allreduce 10 20 3 7 0 9",
		"allreduce 10 10 3 9 4 9",
		"allreduce 10 10 3 7 5 9",
		"dropop 5",
		"broadcast 10 20 4 1 1 9",
		"reduce 10 20 5 4 2 3 9",
		"allgather 10 20 6 2 9",
		"reducescatter 10 20 7 8 3 9",
		"groupstart", "send 10 8 6 1 9", "recv 20 8 6 3 9", "groupend same thread",
		"memalloc 4096", "register 1000 4096", "window 1000 4096 1",
		"deregister 77", "dropwindow 88", "memfree 1000",
		"finalize", "destroy",
	}
	if got := calls()[1:]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCallsWaitUntilNCCLHasTakenThemIn(t *testing.T) {
	l, _ := fake(t, "VERSION=22809")
	steer(t, "inprogress=100")
	c := initRank(t, l, Config{})
	ctx := t.Context()
	if err := errors.Join(
		c.AllReduce(ctx, 1, 1, 1, Float32, Sum, 0),
		c.Broadcast(ctx, 1, 1, 1, Float32, 0, 0),
		c.Finalize(ctx), c.Destroy(),
	); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsCarryNCCLsText(t *testing.T) {
	l, _ := fake(t, "VERSION=22809")
	c := initRank(t, l, Config{})
	defer c.Abort(t.Context())
	steer(t, "ncclAllReduce=4")
	t.Setenv("FAKE_NCCL_LAST", "AllReduce : invalid root 9\nmore\n")
	err := c.AllReduce(t.Context(), 1, 1, 1, Float32, Sum, 0)
	if !errors.Is(err, InvalidArgument) || err.Error() != "ncclAllReduce: invalid argument: AllReduce : invalid root 9" {
		t.Errorf("error %v", err)
	}
	var call *CallError
	if !errors.As(err, &call) || call.Call != "ncclAllReduce" {
		t.Errorf("error %#v", err)
	}
	t.Setenv("FAKE_NCCL_LAST", "")
	if err := c.AllReduce(t.Context(), 1, 1, 1, Float32, Sum, 0); !strings.Contains(err.Error(), "the fake's error string") {
		t.Errorf("error %v", err)
	}
}

func TestAsyncError(t *testing.T) {
	l, _ := fake(t, "VERSION=22809")
	c := initRank(t, l, Config{})
	if err := c.AsyncError(); err != nil {
		t.Errorf("a healthy communicator reports %v", err)
	}
	steer(t, "async=6")
	if err := c.AsyncError(); !errors.Is(err, RemoteError) {
		t.Errorf("error %v", err)
	}
	if err := c.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.AsyncError(); !errors.Is(err, ErrAborted) {
		t.Errorf("after the abort: %v", err)
	}
}

func TestInitHeedsItsContext(t *testing.T) {
	l, calls := fake(t, "VERSION=22809")
	steer(t, "hang")
	late := errors.New("rank 3 never came")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, late)
	defer cancel()
	_, err := l.InitRank(ctx, 4, UniqueID{}, 2, Config{})
	if !errors.Is(err, late) || !strings.Contains(err.Error(), "rank 2 of 4") {
		t.Errorf("error %v", err)
	}
	if !has(calls(), "abort") {
		t.Error("the half-made communicator was left")
	}
}

func TestInitFailure(t *testing.T) {
	l, calls := fake(t, "VERSION=22809")
	steer(t, "ncclCommInitRankConfig=2")
	if _, err := l.InitRank(t.Context(), 4, UniqueID{}, 2, Config{}); !errors.Is(err, SystemError) {
		t.Errorf("error %v", err)
	}
	if has(calls(), "abort") {
		t.Error("aborted a communicator that never was")
	}
	steer(t, "inprogress=2 async=2")
	if _, err := l.InitRank(t.Context(), 4, UniqueID{}, 2, Config{}); !errors.Is(err, SystemError) {
		t.Errorf("error %v", err)
	}
	if !has(calls(), "abort") {
		t.Error("the communicator that failed in the background was left")
	}
}

func TestSplit(t *testing.T) {
	for _, how := range []string{"", "late", "inprogress=5"} {
		l, calls := fake(t, "VERSION=22809")
		c := initRank(t, l, Config{})
		steer(t, how)
		child, err := c.Split(t.Context(), 1, 7, Config{})
		if err != nil {
			t.Fatalf("%q: %v", how, err)
		}
		if child.Rank() != 2 || child.Size() != 4 || !has(calls(), "split color=1 key=7") || has(calls(), "poll of no communicator") {
			t.Errorf("%q: rank %d, size %d, calls %q", how, child.Rank(), child.Size(), calls())
		}
		steer(t, "")
		none, err := c.Split(t.Context(), NoColor, 0, Config{})
		if none != nil || err != nil {
			t.Errorf("%q: without a color: %v, %v", how, none, err)
		}
		if err := errors.Join(child.Abort(t.Context()), c.Abort(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func TestAbortEndsACallUnderWay(t *testing.T) {
	l, calls := fake(t, "VERSION=22809")
	c := initRank(t, l, Config{})
	steer(t, "inprogress=1000000000")
	ended := make(chan error, 1)
	go func() { ended <- c.AllReduce(context.Background(), 1, 1, 1, Float32, Sum, 0) }()
	for !has(calls(), "allreduce 1 1 1 7 0 0") {
		time.Sleep(time.Millisecond)
	}
	if err := c.AsyncError(); err != nil {
		t.Errorf("the call under way is an error: %v", err)
	}
	if err := c.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrAborted) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(c.Abort(t.Context()), c.Abort(t.Context())); err != nil {
		t.Errorf("a second abort: %v", err)
	}
	if err := c.Finalize(t.Context()); !errors.Is(err, ErrAborted) {
		t.Errorf("finalize after the abort: %v", err)
	}
	if err := c.Destroy(); !errors.Is(err, ErrAborted) {
		t.Errorf("destroy after the abort: %v", err)
	}
	if n := strings.Count(strings.Join(calls(), "\n"), "abort"); n != 1 {
		t.Errorf("%d aborts reached the library", n)
	}
}

func TestAbortThatNeverReturns(t *testing.T) {
	l, _ := fake(t, "VERSION=22809")
	c := initRank(t, l, Config{})
	steer(t, "ncclCommAbort=99")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := c.Abort(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
