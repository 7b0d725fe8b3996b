package collectivetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// Open makes a new group of size ranks in this process; element r is rank r.
// The suite closes the groups.
type Open func(t *testing.T, size int) []collective.Group

// patience is the longest that anything in the suite may take: it turns a hang
// into a failure and is no measure of speed.
const patience = 60 * time.Second

// Sizes are the group sizes of the suite.
var sizes = []int{1, 2, 3, 4, 5, 8}

// Run checks a backend. open's groups must have a deadline of at least a
// minute; see Missing for the rest.
func Run(t *testing.T, open Open) {
	t.Run("results", func(t *testing.T) { testResults(t, open) })
	t.Run("in place", func(t *testing.T) { testInPlace(t, open) })
	t.Run("same bits", func(t *testing.T) { testBits(t, open) })
	t.Run("in flight", func(t *testing.T) { testInFlight(t, open) })
	t.Run("work", func(t *testing.T) { testWork(t, open) })
	t.Run("late rank", func(t *testing.T) { testLate(t, open) })
	t.Run("abort", func(t *testing.T) { testAbort(t, open) })
	t.Run("early exit", func(t *testing.T) { testEarlyExit(t, open) })
	t.Run("mismatch", func(t *testing.T) { testMismatch(t, open) })
	t.Run("invalid", func(t *testing.T) { testInvalid(t, open) })
	t.Run("closed", func(t *testing.T) { testClosed(t, open) })
}

// each runs f for a group of every size.
func each(t *testing.T, open Open, from int, f func(t *testing.T, groups []collective.Group)) {
	for _, n := range sizes {
		if n < from {
			continue
		}
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) { with(t, open, n, f) })
	}
}

// with opens a group, runs f and closes the group.
func with(t *testing.T, open Open, n int, f func(t *testing.T, groups []collective.Group)) {
	groups := open(t, n)
	for r, g := range groups {
		if g.Rank() != r || g.Size() != n {
			t.Fatalf("group %d says rank %d of %d, want %d of %d", r, g.Rank(), g.Size(), r, n)
		}
		if g.Backend() == "" {
			t.Error("a backend has a name")
		}
	}
	defer closeAll(t, groups)
	f(t, groups)
}

func closeAll(t *testing.T, groups []collective.Group) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ranks(groups, func(_ int, g collective.Group) {
			if err := g.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("close hangs")
	}
}

// ranks runs f as every rank at the same time.
func ranks(groups []collective.Group, f func(r int, g collective.Group)) {
	var wg sync.WaitGroup
	for r, g := range groups {
		wg.Go(func() { f(r, g) })
	}
	wg.Wait()
}

// wait is Wait with patience.
func wait(w collective.Work) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return w.Wait(ctx)
}
