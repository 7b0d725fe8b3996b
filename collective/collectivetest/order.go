package collectivetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// testInFlight enqueues many operations before it waits for any, with
// different delays on each rank.
func testInFlight(t *testing.T, open Open) {
	each(t, open, 1, func(t *testing.T, groups []collective.Group) {
		n := len(groups)
		sizes := []int{1, 9000, 0, 7, 12_001, 64, 2000}
		ranks(groups, func(r int, g collective.Group) {
			var works []collective.Work
			var checks []func() error
			for i := range 42 {
				count := sizes[i%len(sizes)]
				w, check := enqueue(g, i, n, count)
				works, checks = append(works, w), append(checks, check)
				if i%n == r {
					time.Sleep(time.Millisecond)
				}
			}
			last := len(works) - 1
			if err := wait(works[last]); err != nil {
				t.Errorf("rank %d: %v", r, err)
				return
			}
			for i, w := range works {
				select {
				case <-w.Done():
				default:
					t.Errorf("rank %d: operation %d is not done, but the last one is", r, i)
				}
				if err := checks[i](); w.Err() != nil || err != nil {
					t.Errorf("rank %d: operation %d: %v, %v", r, i, w.Err(), err)
				}
			}
		})
	})
}

// enqueue starts the i-th operation of a mixed sequence.
func enqueue(g collective.Group, i, n, count int) (collective.Work, func() error) {
	r := g.Rank()
	switch i % 5 {
	case 0:
		return g.Barrier(), func() error { return nil }
	case 1:
		buf := input[float32](r, count)
		return g.Broadcast(collective.HostBuffer(buf), i%n), func() error { return checkSame(buf, input[float32](i%n, count)) }
	case 2:
		src, dst := input[int32](r, count), make([]int32, n*count)
		return g.AllGather(collective.HostBuffer(dst), collective.HostBuffer(src)), func() error {
			return checkSame(dst, slices.Concat(inputs[int32](n, count)...))
		}
	case 3:
		src, dst := input[int64](r, n*count), make([]int64, count)
		return g.ReduceScatter(collective.HostBuffer(dst), collective.HostBuffer(src), collective.Sum), func() error {
			return expect(inputs[int64](n, n*count), collective.Sum).check(dst, r*count)
		}
	}
	buf := input[float64](r, count)
	return g.AllReduce(collective.HostBuffer(buf), collective.Sum), func() error {
		return expect(inputs[float64](n, count), collective.Sum).check(buf, 0)
	}
}

// testWork checks what the handle promises.
func testWork(t *testing.T, open Open) {
	with(t, open, 2, func(t *testing.T, groups []collective.Group) {
		buf := [2][]float32{{1, 2}, {3, 4}}
		w := groups[0].AllReduce(collective.HostBuffer(buf[0]), collective.Sum)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer stop()
		if err := w.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait without the other rank: %v", err)
		}
		select {
		case <-w.Done():
			t.Error("done without the other rank")
		default:
		}
		if w.Err() != nil || w.Elapsed() != 0 {
			t.Errorf("not done, but err %v, elapsed %v", w.Err(), w.Elapsed())
		}
		v := groups[1].AllReduce(collective.HostBuffer(buf[1]), collective.Sum)
		for r, w := range []collective.Work{w, v} {
			if err := wait(w); err != nil || w.Err() != nil {
				t.Errorf("rank %d: %v, %v", r, err, w.Err())
			}
			if w.Elapsed() <= 0 {
				t.Errorf("rank %d: elapsed %v", r, w.Elapsed())
			}
			if err := w.Wait(ctx); err != nil {
				t.Errorf("rank %d: wait for what is done, with a context that has ended: %v", r, err)
			}
			if buf[r][0] != 4 || buf[r][1] != 6 {
				t.Errorf("rank %d: %v: a wait that gave up must not stop the operation", r, buf[r])
			}
		}
	})
}

// testLate lets each rank in turn come late to each operation.
func testLate(t *testing.T, open Open) {
	with(t, open, 3, func(t *testing.T, groups []collective.Group) {
		for late := range groups {
			ranks(groups, func(r int, g collective.Group) {
				for i := range 5 {
					if r == late {
						time.Sleep(15 * time.Millisecond)
					}
					w, check := enqueue(g, i, 3, 20_000)
					if err := wait(w); err != nil {
						t.Errorf("rank %d, operation %d, rank %d late: %v", r, i, late, err)
					} else if err := check(); err != nil {
						t.Errorf("rank %d, operation %d, rank %d late: %v", r, i, late, err)
					}
				}
			})
		}
	})
}
