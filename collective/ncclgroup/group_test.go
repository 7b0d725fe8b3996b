package ncclgroup

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/collectivetest"
	"github.com/ddprun/ddprun/collective/store"
)

// asChild, in a build for the GPU, makes the process one rank of a test of
// another process and does not return, if it was started as such.
var asChild = func() {}

func TestMain(m *testing.M) {
	asChild()
	goleak.VerifyTestMain(m)
}

// ranks is a set of ranks in this process.
type ranks struct {
	server *store.Server
	world  *fakeWorld
	devs   []*fakeDevice
	groups []*group
	mu     sync.Mutex
	warned []string
}

const token = "0123456789abcdef0123456789abcdef"

func newStore(t *testing.T) *store.Server {
	t.Helper()
	s, err := store.Listen(t.Context(), "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connect is rank r's way to the store: rank 0 lives beside it.
func connect(t *testing.T, s *store.Server, r int) store.Store {
	t.Helper()
	if r == 0 {
		return s.Local()
	}
	c, err := store.Dial(t.Context(), s.Addr(), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// start makes a group of size ranks; change may alter each rank's
// configuration.
func start(t *testing.T, size int, change func(*Config)) *ranks {
	t.Helper()
	rs := &ranks{server: newStore(t), world: newFakeWorld(size), groups: make([]*group, size)}
	for range size {
		rs.devs = append(rs.devs, newFakeDevice(t))
	}
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		cfg := Config{Rank: r, Size: size, Store: connect(t, rs.server, r), Device: rs.devs[r], Timeout: time.Minute, Warn: rs.warn}
		if change != nil {
			change(&cfg)
		}
		if err := cfg.complete(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			rs.groups[r], errs[r] = open(context.Background(), cfg, &fakeNCCL{version: 22809, path: "fake", dev: rs.devs[r], world: rs.world})
		})
	}
	wg.Wait()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	t.Cleanup(rs.close)
	return rs
}

func (rs *ranks) warn(text string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.warned = append(rs.warned, text)
}

// close closes all groups together, as collective programs do.
func (rs *ranks) close() {
	rs.each(func(_ int, g *group) { _ = g.Close() })
}

func (rs *ranks) each(f func(r int, g *group)) {
	var wg sync.WaitGroup
	for r, g := range rs.groups {
		wg.Go(func() { f(r, g) })
	}
	wg.Wait()
}

func suite(change func(*Config)) collectivetest.Open {
	return func(t *testing.T, size int) []collective.Group {
		if size > 5 || testing.Short() && size > 2 {
			t.Skip("more ranks than there is time for")
		}
		rs := start(t, size, change)
		var gs []collective.Group
		for _, g := range rs.groups {
			gs = append(gs, g)
		}
		return gs
	}
}

func TestSuite(t *testing.T) { collectivetest.Run(t, suite(nil)) }

func TestMissingRank(t *testing.T) {
	collectivetest.Missing(t, suite(func(c *Config) { c.Timeout = 300 * time.Millisecond }))
}

func wait(w collective.Work) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return w.Wait(ctx)
}
