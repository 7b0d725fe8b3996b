package cpu_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/collectivetest"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
)

const token = "a token"

// opener makes groups of ranks that are goroutines, with a real store.
func opener(timeout time.Duration) collectivetest.Open {
	return func(t *testing.T, size int) []collective.Group {
		t.Helper()
		s, err := store.Listen(t.Context(), "127.0.0.1:0", token)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		groups, errs := join(t.Context(), s.Local(), size, timeout)
		for r, err := range errs {
			if err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
		return groups
	}
}

func join(ctx context.Context, s store.Store, size int, timeout time.Duration) ([]collective.Group, []error) {
	groups, errs := make([]collective.Group, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			groups[r], errs[r] = cpu.New(ctx, cpu.Config{Rank: r, Size: size, Store: s, Token: token, Timeout: timeout})
		})
	}
	wg.Wait()
	return groups, errs
}

// leakless checks, after all other cleanups, that no goroutine is left.
func leakless(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

func TestConformance(t *testing.T) {
	leakless(t)
	collectivetest.Run(t, opener(2*time.Minute))
}

func TestMissingRank(t *testing.T) {
	leakless(t)
	collectivetest.Missing(t, opener(300*time.Millisecond))
}

func BenchmarkAllReduce(b *testing.B) {
	s, err := store.Listen(b.Context(), "127.0.0.1:0", token)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	groups, errs := join(b.Context(), s.Local(), 4, time.Minute)
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, count := range []int{1, 1 << 10, 16 << 10, 256 << 10, 669_706, 4 << 20} {
		b.Run(fmt.Sprint(4*count), func(b *testing.B) {
			b.SetBytes(int64(4 * count))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for _, g := range groups {
				wg.Go(func() {
					buf := collective.HostBuffer(make([]float32, count))
					for range b.N {
						if err := g.AllReduce(buf, collective.Sum).Wait(context.Background()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
	for _, g := range groups {
		go g.Close()
	}
}
