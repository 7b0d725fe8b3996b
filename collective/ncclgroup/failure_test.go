package ncclgroup

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/nccl"
)

// lifeless is the store of a process that gives no sign of life.
type lifeless struct{ store.Store }

func (l lifeless) Set(ctx context.Context, key string, v []byte) error {
	if strings.Contains(key, "/beat/") {
		return nil
	}
	return l.Store.Set(ctx, key, v)
}

// NCCL tells that a peer is gone but not which: the process that is silent is
// named, on all ranks.
func TestLostPeerIsNamed(t *testing.T) {
	rs := start(t, 3, func(c *Config) {
		if c.Rank == 1 {
			c.Store = lifeless{c.Store}
		}
	})
	gone := &nccl.CallError{Call: "asynchronous", Result: nccl.RemoteError, Detail: "socketPollConnect: connection closed"}
	begin := time.Now()
	rs.each(func(r int, g *group) {
		if r == 1 {
			return
		}
		w := g.AllReduce(collective.HostBuffer([]float32{1}), collective.Sum)
		rs.world.comm(r).setAsync(gone)
		err := wait(w)
		if !errors.Is(err, collective.ErrPeerLost) || !strings.Contains(err.Error(), "lost rank 1, whose process is silent") || !strings.Contains(err.Error(), "connection closed") {
			t.Errorf("rank %d: %v", r, err)
		}
	})
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

// An error of this rank's own GPU is no lost peer.
func TestAsyncErrorOfOnesOwn(t *testing.T) {
	rs := start(t, 2, nil)
	rs.each(func(r int, g *group) {
		if r == 0 {
			rs.world.comm(0).setAsync(&nccl.CallError{Call: "asynchronous", Result: nccl.UnhandledCUDAError})
		}
		err := wait(g.AllReduce(collective.HostBuffer([]float32{1}), collective.Sum))
		for r == 0 && err == nil { // until the watchdog has looked
			time.Sleep(10 * time.Millisecond)
			err = wait(g.Barrier())
		}
		if r == 0 && !errors.Is(err, nccl.UnhandledCUDAError) {
			t.Errorf("rank 0: %v", err)
		}
		for r == 1 && err == nil {
			err = wait(g.Barrier())
		}
		if r == 1 && (!errors.Is(err, collective.ErrPeerLost) || !strings.Contains(err.Error(), "rank 0 aborted")) {
			t.Errorf("rank 1: %v", err)
		}
	})
}

func TestSilentNeighbour(t *testing.T) {
	rs := start(t, 2, func(c *Config) {
		c.Silence = 4 * time.Second
		if c.Rank == 1 {
			c.Store = lifeless{c.Store}
		}
	})
	g := rs.groups[0]
	if err := g.board.store.Set(t.Context(), "beat/1", []byte("7")); err != nil {
		t.Fatal(err)
	}
	n := neighbour{rank: 1}
	for range 2 { // the first look only learns the number
		if g.quiet(&n) {
			t.Error("silent too early")
		}
	}
	if !g.quiet(&n) {
		t.Error("silence was not noticed")
	}
	if err := g.board.store.Set(t.Context(), "beat/1", []byte("8")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if g.quiet(&n) {
			t.Error("a sign of life was not noticed")
		}
	}
	if err := g.board.store.Set(t.Context(), "left/1", said); err != nil {
		t.Fatal(err)
	}
	if g.quiet(&n) {
		t.Error("a rank that has left counts as lost")
	}
}

func TestTimeoutHasTheExitCodeOfAHang(t *testing.T) {
	f := &failure{Class: classTimeout, Source: 2, Text: "rank 2 waited", told: true}
	err := f.explain("here")
	if exitcode.Of(err) != exitcode.Hang || !errors.Is(err, collective.ErrTimeout) {
		t.Errorf("%v has exit code %d", err, exitcode.Of(err))
	}
}

// A device operation beyond the first thousand is compared only when asked
// for; host operations always are.
func TestWhatIsCompared(t *testing.T) {
	for check, caught := range map[Check]bool{CheckStart: false, CheckAll: true} {
		rs := start(t, 2, func(c *Config) { c.Check = check })
		for _, host := range []bool{false, true} {
			late := func(g *group, k kind) *failure {
				seq := uint64(checkedAtStart)
				if host {
					seq++
				}
				return g.compare(&work{spec: spec{seq: seq, kind: k, dtype: collective.Float32, reduce: collective.Sum, count: 1}, host: host})
			}
			if f := late(rs.groups[0], allReduce); f != nil {
				t.Errorf("the first to come: %v", f)
			}
			f := late(rs.groups[1], broadcast)
			if want := caught || host; (f != nil) != want {
				t.Errorf("check %d, host %v: failure %v", check, host, f)
			}
		}
	}
}

func TestKeysOfOperationsAreDeleted(t *testing.T) {
	rs := start(t, 2, nil)
	for range 20 {
		rs.each(func(_ int, g *group) {
			if err := wait(g.Barrier()); err != nil {
				t.Error(err)
			}
		})
	}
	for _, g := range rs.groups {
		g.sweep()
	}
	for seq := range 20 {
		v, err := rs.groups[0].board.peek(t.Context(), "op/"+string(rune('0'+seq%10)))
		if err != nil || v != nil {
			t.Errorf("op/%d is still there: %q, %v", seq, v, err)
		}
	}
}

func TestLostStoreIsSaidOnceAndBreaksNothing(t *testing.T) {
	rs := start(t, 2, nil)
	_ = rs.server.Close()
	for range 5 {
		rs.each(func(r int, g *group) {
			buf := []float32{float32(r)}
			if err := wait(g.AllReduce(collective.HostBuffer(buf), collective.Sum)); err != nil || buf[0] != 1 {
				t.Errorf("rank %d: %v, %v", r, err, buf)
			}
		})
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range []string{"rank 0", "rank 1"} {
		n := 0
		for _, w := range rs.warned {
			if strings.Contains(w, r) && strings.Contains(w, "the store has failed") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s warned %d times: %q", r, n, rs.warned)
		}
	}
}

// join starts ranks whose meeting fails and returns their errors.
func join(t *testing.T, size int, change func(*Config, *fakeNCCL) bool) []error {
	t.Helper()
	server, world := newStore(t), newFakeWorld(size)
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		cfg := Config{Rank: r, Size: size, Store: connect(t, server, r), Device: newFakeDevice(t), InitTimeout: 2 * time.Second}
		lib := &fakeNCCL{version: 22809, path: "/lib/libnccl.so.2", dev: cfg.Device.(*fakeDevice), world: world}
		if !change(&cfg, lib) {
			continue
		}
		if err := cfg.complete(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _, errs[r] = open(context.Background(), cfg, lib) })
	}
	wg.Wait()
	return errs
}

func TestMissingRankIsNamedAtTheMeeting(t *testing.T) {
	errs := join(t, 4, func(c *Config, _ *fakeNCCL) bool { return c.Rank != 2 })
	for r, err := range errs {
		if r == 2 {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "rank 2 of 4 did not come") || strings.Contains(err.Error(), "rank 3 of") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	first := errs[0]
	if !errors.Is(first, collective.ErrTimeout) || exitcode.Of(first) != exitcode.Rendezvous {
		t.Errorf("exit code %d: %v", exitcode.Of(first), first)
	}
}

func TestRankThatHangsInNCCLIsNamed(t *testing.T) {
	errs := join(t, 3, func(c *Config, l *fakeNCCL) bool {
		if c.Rank == 1 { // its library never sees the others
			l.world = newFakeWorld(3)
		}
		return true
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "did not get NCCL up") || !strings.Contains(err.Error(), "rank 1") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestDifferentVersionsAreNamed(t *testing.T) {
	errs := join(t, 3, func(c *Config, l *fakeNCCL) bool {
		c.InitTimeout = 20 * time.Second
		if c.Rank == 2 {
			l.version, l.path = 22703, "/opt/libnccl.so.2"
		}
		return true
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 0 has NCCL 2.28.9 (/lib/libnccl.so.2") || !strings.Contains(err.Error(), "rank 2 has NCCL 2.27.3 (/opt/libnccl.so.2") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestFailedSetUpEndsTheOthers(t *testing.T) {
	begin := time.Now()
	errs := join(t, 3, func(c *Config, l *fakeNCCL) bool {
		c.InitTimeout = time.Minute
		if c.Rank == 1 {
			c.Device = deviceWithoutMemory{c.Device}
		}
		return true
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("rank %d: %v", r, err)
		}
		if r != 1 && (!errors.Is(err, collective.ErrPeerLost) || !strings.Contains(err.Error(), "rank 1 aborted")) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

type deviceWithoutMemory struct{ Device }

func (deviceWithoutMemory) Alloc(int) (uintptr, error) { return 0, errors.New("out of memory") }

func TestCancelledMeeting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newFakeDevice(t)
	cfg := Config{Rank: 0, Size: 2, Store: newStore(t).Local(), Device: d}
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := open(ctx, cfg, &fakeNCCL{version: 22809, dev: d, world: newFakeWorld(2)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	d := newFakeDevice(t)
	s := newStore(t).Local()
	for name, c := range map[string]Config{
		"rank": {Rank: 2, Size: 2, Store: s, Device: d}, "size": {Store: s, Device: d},
		"store": {Size: 1, Device: d}, "device": {Size: 1, Store: s},
		"timeout": {Size: 1, Store: s, Device: d, Timeout: -1}, "check": {Size: 1, Store: s, Device: d, Check: 9},
	} {
		if _, err := New(t.Context(), c); !errors.Is(err, collective.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
