package allocator_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
)

// TestSizes is the table of PyTorch's size classes: what a single request
// reserves, what it holds, and whether the rest stays as a free split.
func TestSizes(t *testing.T) {
	for _, c := range []struct{ request, reserved, allocated, rest int }{
		{0, 2 * mib, 512, 2*mib - 512},
		{1, 2 * mib, 512, 2*mib - 512},
		{512, 2 * mib, 512, 2*mib - 512},
		{513, 2 * mib, 1024, 2*mib - 1024},
		{mib, 2 * mib, mib, mib},
		{mib + 1, 20 * mib, 1049088, 20*mib - 1049088},
		{10*mib - 512, 20 * mib, 10*mib - 512, 10*mib + 512},
		{10 * mib, 10 * mib, 10 * mib, 0},
		{10*mib + 1, 12 * mib, 10486272, 2096640},
		{11 * mib, 12 * mib, 12 * mib, 0}, // a rest of 1 MiB is not split off
		{100 * mib, 100 * mib, 100 * mib, 0},
	} {
		b := open(t, 1<<30, allocator.Options{})
		addr := b.alloc(c.request, 1)
		s := b.Stats()
		pool := allocator.LargePool
		if c.request <= mib {
			pool = allocator.SmallPool
		}
		for _, i := range []int{allocator.All, pool} {
			b.want("reserved", s.ReservedBytes[i].Current, c.reserved)
			b.want("allocated", s.AllocatedBytes[i].Current, c.allocated)
			b.want("active", s.ActiveBytes[i].Current, c.allocated)
			b.want("inactive split", s.InactiveSplitBytes[i].Current, c.rest)
			b.want("segments", s.Segments[i].Current, 1)
		}
		b.want("requested", s.RequestedBytes[allocator.All].Current, c.request)
		b.want("splits", s.InactiveSplit[allocator.All].Current, min(c.rest, 1))
		b.free(addr)
		s = b.Stats()
		b.want("allocated after free", s.AllocatedBytes[allocator.All].Current, 0)
		b.want("reserved after free", s.ReservedBytes[allocator.All].Current, c.reserved)
		b.want("inactive split after free", s.InactiveSplitBytes[allocator.All].Current, 0)
		b.want("peak", s.AllocatedBytes[allocator.All].Peak, c.allocated)
		b.ok(b.EmptyCache())
		b.want("reserved after EmptyCache", b.Stats().ReservedBytes[allocator.All].Current, 0)
		if t.Failed() {
			t.Fatalf("a request of %d bytes", c.request)
		}
	}
}

func TestRoundDivisions(t *testing.T) {
	for _, c := range []struct{ divisions, request, want int }{
		{4, 1200, 1536}, {4, 2100, 2560}, {4, 4096, 4096}, {8, 1<<20 - 1, 1 << 20}, {4, 5 * mib, 5 * mib}, {4, 5*mib + 1, 6 * mib}, {0, 1200, 1536},
	} {
		b := open(t, 1<<30, allocator.Options{RoundDivisions: c.divisions})
		b.alloc(c.request, 1)
		if got := b.Stats().AllocatedBytes[allocator.All].Current; got != c.want {
			t.Errorf("%d bytes in %d divisions make a block of %d, want %d", c.request, c.divisions, got, c.want)
		}
	}
}

func TestBestFitAndMerge(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	// Four blocks of one segment: 4, 3, 5 and 2 MiB, then the rest.
	a4, a3, a5, a2 := b.alloc(4*mib, 1), b.alloc(3*mib, 1), b.alloc(5*mib, 1), b.alloc(2*mib, 1)
	if a3 != a4+4*mib || a5 != a3+3*mib || a2 != a5+5*mib {
		t.Fatalf("blocks at %#x %#x %#x %#x", a4, a3, a5, a2)
	}
	b.free(a3)
	if got := b.alloc(5*mib/2, 1); got != a3 {
		t.Errorf("2.5 MiB went to %#x, the best fit is the 3 MiB at %#x", got, a3)
	}
	b.free(a3, a4)
	if got := b.alloc(7*mib, 1); got != a4 {
		t.Errorf("7 MiB went to %#x, want the joined 4+3 MiB at %#x", got, a4)
	}
	b.free(a4, a5, a2)
	s := b.Stats()
	b.want("free splits", s.InactiveSplit[allocator.All].Current, 0)
	b.want("segments", s.Segments[allocator.All].Current, 1)
}

// TestStreams: a block serves its own stream only.
func TestStreams(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	first := b.alloc(kib, 1)
	b.free(first)
	other := b.alloc(kib, 2)
	if other == first {
		t.Fatal("a block of stream 1 was handed out to stream 2")
	}
	if again := b.alloc(kib, 1); again != first {
		t.Errorf("stream 1 got %#x, want its own %#x again", again, first)
	}
	if s, ok := b.StreamOf(other); !ok || s != 2 {
		t.Errorf("StreamOf says %v %v", s, ok)
	}
	if _, ok := b.StreamOf(1); ok {
		t.Error("StreamOf knows an address that was not handed out")
	}
}

// TestRecordStream: a freed block that another stream uses is active until
// that stream has passed the point of the free.
func TestRecordStream(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	addr := b.alloc(kib, 1)
	b.ok(b.RecordStream(addr, 1)) // its own: nothing to wait for
	b.ok(b.RecordStream(addr, 2))
	b.ok(b.RecordStream(addr, 2))
	b.ok(b.RecordStream(addr, 3))
	b.free(addr)
	b.want("marks", len(b.dev.marks), 2)
	s := b.Stats()
	b.want("allocated", s.AllocatedBytes[allocator.All].Current, 0)
	b.want("active", s.ActiveBytes[allocator.All].Current, kib)
	if got := b.alloc(kib, 1); got == addr {
		t.Fatal("the block was reused while streams 2 and 3 may use it")
	}
	b.dev.finish(3) // out of order
	if got := b.alloc(kib, 1); got == addr {
		t.Fatal("the block was reused while stream 2 may use it")
	}
	b.dev.finish(2)
	if got := b.alloc(kib, 1); got != addr {
		t.Errorf("the block is not reused after its streams are done: %#x", got)
	}
	b.want("active", b.Stats().Active[allocator.All].Current, 3)
	if err := b.RecordStream(1, 2); err == nil {
		t.Error("RecordStream of an unknown address: no error")
	}
}

// TestEventsDoNotBlockEachOther: a slow stream does not hold back the blocks
// of another.
func TestEventsDoNotBlockEachOther(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	x, y := b.alloc(kib, 1), b.alloc(kib, 1)
	b.ok(b.RecordStream(x, 2))
	b.ok(b.RecordStream(y, 3))
	b.free(x, y)
	b.dev.finish(3)
	if got := b.alloc(kib, 1); got != y {
		t.Errorf("got %#x, want %#x, whose stream is done", got, y)
	}
}

func TestRetryAfterEmptyingTheCache(t *testing.T) {
	b := open(t, 64*mib, allocator.Options{})
	x := b.alloc(40*mib, 1)
	y := b.alloc(mib, 1)
	b.ok(b.RecordStream(x, 2))
	b.free(x)
	// The 40 MiB are cached, and stream 2 may still use them.
	b.alloc(50*mib, 1)
	s := b.Stats()
	b.want("retries", s.Retries, 1)
	b.want("ooms", s.OOMs, 0)
	b.want("waits", b.dev.waited, 1)
	b.want("frees", s.DeviceFrees, 1)
	b.want("reserved", s.ReservedBytes[allocator.All].Current, 52*mib)
	b.free(y)
}

func TestOutOfMemory(t *testing.T) {
	b := open(t, 64*mib, allocator.Options{})
	for range 3 {
		_, err := b.Alloc(10*mib, 1, "h.0.mlp.c_fc")
		b.ok(err)
	}
	_, err := b.Alloc(2*mib, 1, "wte.weight")
	b.ok(err)
	_, err = b.Alloc(30*mib, 1, "logits")
	var oom *allocator.OutOfMemory
	if !errors.As(err, &oom) {
		t.Fatalf("30 MiB more: %v", err)
	}
	b.want("request", oom.Request, 30*mib)
	b.want("total", oom.Total, 64*mib)
	b.want("free", oom.Free, 14*mib)
	b.want("reserved", oom.Reserved, 50*mib)
	b.want("allocated", oom.Allocated, 32*mib)
	b.want("largest free", oom.LargestFree, 18*mib)
	b.want("unusable", oom.Unusable, 18*mib)
	want := []allocator.Live{{Tag: "h.0.mlp.c_fc", Bytes: 30 * mib, Count: 3}, {Tag: "wte.weight", Bytes: 2 * mib, Count: 1}}
	if !slices.Equal(oom.Live, want) {
		t.Errorf("live: %+v", oom.Live)
	}
	for _, words := range []string{
		"out of memory on cuda:0", "logits needs 30.00 MiB", "has 64.00 MiB, 14.00 MiB of it free", "reserved 50.00 MiB: 32.00 MiB in tensors",
		"18.00 MiB kept for reuse", "h.0.mlp.c_fc 30.00 MiB in 3 tensors, wte.weight 2.00 MiB", "what to do: make train.batch_size smaller",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the report lacks %q:\n%v", words, err)
		}
	}
	if strings.Index(err.Error(), "batch_size") > strings.Index(err.Error(), "data.block") {
		t.Error("the batch size is not the first advice")
	}
	s := b.Stats()
	b.want("ooms", s.OOMs, 1)
	b.want("retries", s.Retries, 1)
	b.alloc(16*mib, 1) // there is still life
}

func TestDriverErrorsPassThrough(t *testing.T) {
	b := open(t, 64*mib, allocator.Options{})
	broken := errors.New("illegal address")
	b.dev.refuse = broken
	if _, err := b.Alloc(1, 1, "x"); !errors.Is(err, broken) || b.Stats().OOMs != 0 {
		t.Errorf("a broken device: %v", err)
	}
}

func TestLimit(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{Limit: 30 * mib})
	b.alloc(20*mib, 1)
	_, err := b.Alloc(20*mib, 1, "x")
	if err == nil || !strings.Contains(err.Error(), "limit is 30.00 MiB") {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestMaxSplit(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{MaxSplit: 32 * mib})
	big := b.alloc(64*mib, 1)
	b.free(big)
	if got := b.alloc(16*mib, 1); got == big {
		t.Error("a block above max_split_size served a small request")
	}
	if got := b.alloc(40*mib, 1); got == big {
		t.Error("a block above max_split_size served a request 24 MiB smaller")
	}
	if got := b.alloc(50*mib, 1); got != big {
		t.Error("a block above max_split_size did not serve a request of about its size")
	}
	s := b.Stats()
	b.want("oversize allocations", s.OversizeAllocations.Current, 2)
	b.want("oversize segments", s.OversizeSegments.Current, 2)
	b.want("allocated", s.AllocatedBytes[allocator.All].Current, (64+16+40)*mib) // not split
	b.free(big)

	// Before everything is given back, large cached blocks are.
	b.dev.total = b.dev.used
	b.alloc(60*mib+2*mib, 1)
	b.want("retries", b.Stats().Retries, 0)
}

func TestGarbageCollection(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{Limit: 100 * mib, GCThreshold: 0.5})
	old := b.alloc(30*mib, 1)
	b.free(old)
	for range 10 {
		b.free(b.alloc(1, 1))
	}
	fresh := b.alloc(34*mib, 1)
	b.free(fresh)
	b.alloc(20*mib, 2) // 66 MiB are reserved, 50 allowed before collecting
	s := b.Stats()
	b.want("frees", s.DeviceFrees, 1)
	if got := b.alloc(34*mib, 1); got != fresh {
		t.Error("the fresh block was collected, not the old one")
	}
}

func TestResets(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	x, y := b.alloc(mib, 1), b.alloc(mib, 1)
	b.free(x)
	b.ResetPeaks()
	b.ResetAccumulated()
	c := b.Stats().AllocatedBytes[allocator.All]
	if c != (allocator.Counter{Current: mib, Peak: mib}) {
		t.Errorf("after the resets: %+v", c)
	}
	b.free(y)
	b.alloc(3*mib, 1)
	c = b.Stats().AllocatedBytes[allocator.All]
	if c != (allocator.Counter{Current: 3 * mib, Peak: 3 * mib, Allocated: 3 * mib, Freed: mib}) {
		t.Errorf("after more: %+v", c)
	}
}

func TestMisuse(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	x := b.alloc(1, 1)
	b.free(x)
	if b.Free(x) == nil {
		t.Error("double free: no error")
	}
	if _, err := b.Alloc(-1, 1, "x"); err == nil {
		t.Error("-1 bytes: no error")
	}
	if _, err := b.Alloc(1<<63-1, 1, "x"); err == nil {
		t.Error("2^63-1 bytes: no error")
	}
	y := b.alloc(30*mib, 1)
	b.ok(b.RecordStream(y, 2))
	b.free(y)
	b.dev.finish(2)
	b.alloc(1, 3)
	b.ok(b.Close())
	b.ok(b.Close())
	b.want("segments of the device", len(b.dev.segments), 0)
	if _, err := b.Alloc(1, 1, "x"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	b.ok(b.Free(x))
	b.ok(b.EmptyCache())
}

// held is a live block of the random test.
type held struct {
	addr   uintptr
	bytes  int
	stream allocator.Stream
}

// TestRandom allocates and frees at random and holds what is visible from
// outside: blocks do not overlap, lie in one segment, and the statistics add
// up.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		o := allocator.Options{}
		if seed%3 == 1 {
			o.MaxSplit = 64 * mib
		}
		b := open(t, 400*mib, o)
		rng := rand.New(rand.NewPCG(seed, 1))
		var live []held
		for step := range 3000 {
			switch k := rng.IntN(20); {
			case k < 10:
				bytes := int(float64(kib) * float64(uint(1)<<rng.IntN(16)) * (0.5 + rng.Float64()))
				s := allocator.Stream(1 + rng.IntN(3))
				addr, err := b.Alloc(bytes, s, "t")
				var oom *allocator.OutOfMemory
				if errors.As(err, &oom) {
					continue
				}
				b.ok(err)
				live = append(live, held{addr, bytes, s})
			case k < 18 && len(live) > 0:
				i := rng.IntN(len(live))
				if rng.IntN(4) == 0 {
					b.ok(b.RecordStream(live[i].addr, allocator.Stream(1+rng.IntN(3))))
				}
				b.free(live[i].addr)
				live = slices.Delete(live, i, i+1)
			case k == 18:
				b.dev.finish(allocator.Stream(1 + rng.IntN(3)))
			case k == 19 && rng.IntN(10) == 0:
				b.ok(b.EmptyCache())
			}
			if step%20 == 0 {
				b.consistent(live)
			}
		}
		for _, h := range live {
			b.free(h.addr)
		}
		b.ok(b.EmptyCache())
		s := b.Stats()
		for _, f := range []allocator.Family{s.Allocations, s.Active, s.Segments, s.InactiveSplit, s.AllocatedBytes, s.ReservedBytes, s.ActiveBytes, s.InactiveSplitBytes, s.RequestedBytes} {
			for _, c := range f {
				if c.Current != 0 || c.Allocated != c.Freed {
					t.Fatalf("seed %d: all is freed, statistics say %+v", seed, s)
				}
			}
		}
		b.want("memory of the device", b.dev.used, 0)
	}
}

func (b bench) consistent(live []held) {
	b.Helper()
	s := b.Stats()
	requested := 0
	sorted := slices.Clone(live)
	slices.SortFunc(sorted, func(x, y held) int { return int(x.addr) - int(y.addr) })
	for i, h := range sorted {
		requested += h.bytes
		if i > 0 && sorted[i-1].addr+uintptr(sorted[i-1].bytes) > h.addr {
			b.Fatalf("blocks at %#x and %#x overlap", sorted[i-1].addr, h.addr)
		}
		if h.addr%512 != 0 {
			b.Fatalf("block at %#x is not aligned", h.addr)
		}
		inside := false
		for at, n := range b.dev.segments {
			inside = inside || h.addr >= at && h.addr+uintptr(h.bytes) <= at+uintptr(n)
		}
		if !inside {
			b.Fatalf("block at %#x lies in no segment", h.addr)
		}
	}
	all := allocator.All
	if s.Allocations[all].Current != len(live) || s.AllocatedBytes[all].Current < requested || s.ReservedBytes[all].Current != b.dev.used ||
		s.ActiveBytes[all].Current < s.AllocatedBytes[all].Current || s.ActiveBytes[all].Current+s.InactiveSplitBytes[all].Current > s.ReservedBytes[all].Current {
		b.Fatalf("%d blocks of %d bytes are live, %d are reserved; statistics say %+v", len(live), requested, b.dev.used, s)
	}
	for _, f := range []allocator.Family{s.Allocations, s.AllocatedBytes, s.ReservedBytes, s.ActiveBytes, s.InactiveSplitBytes} {
		if f[all].Current != f[allocator.SmallPool].Current+f[allocator.LargePool].Current {
			b.Fatalf("the pools do not add up: %+v", f)
		}
	}
}

// TestSteadyState: a loop of the same requests takes nothing from the device
// and nothing from the Go heap.
func TestSteadyState(t *testing.T) {
	b := open(t, 1<<30, allocator.Options{})
	step := func() {
		var addrs [8]uintptr
		for i := range addrs {
			addrs[i], _ = b.Alloc(1<<(8+2*i), 1, "t")
		}
		for _, a := range addrs {
			b.free(a)
		}
	}
	step()
	before := b.Stats().DeviceAllocs
	if n := testing.AllocsPerRun(10, step); n != 0 {
		t.Errorf("%g allocations on the Go heap", n)
	}
	b.want("segments taken", b.Stats().DeviceAllocs, before)
}
