package collectivetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// promptly bounds how long a failure may take to reach a rank. It is far above
// what a backend needs, for machines under load.
const promptly = 20 * time.Second

// names says whether a message names a rank.
func names(err error, rank int) bool {
	return err != nil && strings.Contains(err.Error(), fmt.Sprintf("rank %d", rank))
}

// expectBroken checks that a group refuses work after its failure.
func expectBroken(t *testing.T, r int, g collective.Group, want error) {
	t.Helper()
	begin := time.Now()
	err := wait(g.Barrier())
	if !errors.Is(err, want) {
		t.Errorf("rank %d: an operation of a broken group: %v, want %v", r, err, want)
	}
	if d := time.Since(begin); d > promptly {
		t.Errorf("rank %d: it took %v to refuse", r, d)
	}
}

// testAbort has one rank abort while the others wait for it.
func testAbort(t *testing.T, open Open) {
	each(t, open, 2, func(t *testing.T, groups []collective.Group) {
		culprit := len(groups) / 2
		cause := errors.New("label 11 is out of range in line 7")
		begin := time.Now()
		ranks(groups, func(r int, g collective.Group) {
			if err := wait(g.Barrier()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			if r == culprit {
				time.Sleep(20 * time.Millisecond)
				w := g.AllReduce(collective.HostBuffer(make([]float32, 500_000)), collective.Sum)
				v := g.Barrier()
				g.Abort(cause)
				if err := wait(v); !errors.Is(err, cause) {
					t.Errorf("rank %d: work behind: %v", r, err)
				}
				_ = wait(w) // may have come through
				expectBroken(t, r, g, collective.ErrClosed)
				expectBroken(t, r, g, cause)
				g.Abort(errors.New("another"))
				return
			}
			w := g.AllReduce(collective.HostBuffer(make([]float32, 500_000)), collective.Sum)
			err := wait(g.Barrier())
			if !errors.Is(err, collective.ErrPeerLost) || !names(err, culprit) {
				t.Errorf("rank %d: %v", r, err)
			}
			_ = wait(w)
			if g.Backend() == "cpu" && !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("rank %d does not know why: %v", r, err)
			}
			expectBroken(t, r, g, collective.ErrPeerLost)
		})
		if d := time.Since(begin); d > promptly {
			t.Errorf("it took %v", d)
		}
	})
}

// testEarlyExit has one rank close its group while the others go on.
func testEarlyExit(t *testing.T, open Open) {
	each(t, open, 2, func(t *testing.T, groups []collective.Group) {
		culprit := len(groups) - 1
		ranks(groups, func(r int, g collective.Group) {
			if err := wait(g.AllReduce(collective.HostBuffer(make([]float32, 40_000)), collective.Sum)); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			if r == culprit {
				_ = g.Close()
				return
			}
			err := wait(g.AllReduce(collective.HostBuffer(make([]float32, 500_000)), collective.Sum))
			if !errors.Is(err, collective.ErrPeerLost) || !names(err, culprit) {
				t.Errorf("rank %d: %v", r, err)
			}
			expectBroken(t, r, g, collective.ErrPeerLost)
		})
	})
}

// call is one collective of the mismatch matrix.
type call struct {
	name string
	run  func(g collective.Group) collective.Work
}

func f32(count int) collective.Buffer { return collective.HostBuffer(make([]float32, count)) }

// calls differ from each other in one thing at least: operation, count, type,
// reduction, root.
func calls(n int) []call {
	return []call{
		{"all-reduce", func(g collective.Group) collective.Work { return g.AllReduce(f32(1000), collective.Sum) }},
		{"all-reduce count", func(g collective.Group) collective.Work { return g.AllReduce(f32(1001), collective.Sum) }},
		{"all-reduce large", func(g collective.Group) collective.Work { return g.AllReduce(f32(300_000), collective.Sum) }},
		{"all-reduce type", func(g collective.Group) collective.Work {
			return g.AllReduce(collective.HostBuffer(make([]int32, 1000)), collective.Sum)
		}},
		{"all-reduce op", func(g collective.Group) collective.Work { return g.AllReduce(f32(1000), collective.Max) }},
		{"broadcast", func(g collective.Group) collective.Work { return g.Broadcast(f32(1000), 0) }},
		{"broadcast root", func(g collective.Group) collective.Work { return g.Broadcast(f32(1000), n-1) }},
		{"broadcast large", func(g collective.Group) collective.Work { return g.Broadcast(f32(300_000), 0) }},
		{"all-gather", func(g collective.Group) collective.Work { return g.AllGather(f32(1000*n), f32(1000)) }},
		{"reduce-scatter", func(g collective.Group) collective.Work {
			return g.ReduceScatter(f32(1000), f32(1000*n), collective.Sum)
		}},
		{"barrier", func(g collective.Group) collective.Work { return g.Barrier() }},
	}
}

// testMismatch has one rank run another collective than the rest, in every
// combination.
func testMismatch(t *testing.T, open Open) {
	for _, n := range []int{2, 4} {
		list := calls(n)
		for i, most := range list {
			for j, odd := range list {
				if i == j || (n > 2 && (i+j)%3 != 0) { // all pairs with 2 ranks, a third with 4
					continue
				}
				t.Run(fmt.Sprintf("%d ranks, %s for %s", n, odd.name, most.name), func(t *testing.T) {
					with(t, open, n, func(t *testing.T, groups []collective.Group) { disagree(t, groups, most, odd) })
				})
			}
		}
	}
}

func disagree(t *testing.T, groups []collective.Group, most, odd call) {
	stray := len(groups) / 2
	ranks(groups, func(r int, g collective.Group) {
		run := most.run
		if r == stray {
			run = odd.run
		}
		err := wait(run(g))
		if !errors.Is(err, collective.ErrMismatch) {
			t.Errorf("rank %d: %v", r, err)
			return
		}
		if !names(err, stray) || strings.Count(err.Error(), "#0") < 2 {
			t.Errorf("rank %d: the message does not show both sides: %v", r, err)
		}
		expectBroken(t, r, g, collective.ErrMismatch)
	})
}

// testInvalid makes calls that cannot be right on any rank.
func testInvalid(t *testing.T, open Open) {
	bad := map[string]func(g collective.Group) collective.Work{
		"root":          func(g collective.Group) collective.Work { return g.Broadcast(f32(1), g.Size()) },
		"negative root": func(g collective.Group) collective.Work { return g.Broadcast(f32(1), -1) },
		"gather count":  func(g collective.Group) collective.Work { return g.AllGather(f32(3*g.Size()+1), f32(3)) },
		"scatter count": func(g collective.Group) collective.Work {
			return g.ReduceScatter(f32(3), f32(3*g.Size()+1), collective.Sum)
		},
		"types": func(g collective.Group) collective.Work {
			return g.AllGather(collective.HostBuffer(make([]int32, 3*g.Size())), f32(3))
		},
		"reduction": func(g collective.Group) collective.Work { return g.AllReduce(f32(1), 77) },
		"type": func(g collective.Group) collective.Work {
			b := f32(1)
			b.DType = 77
			return g.AllReduce(b, collective.Sum)
		},
		"place": func(g collective.Group) collective.Work {
			b := f32(1)
			b.Place = 77
			return g.AllReduce(b, collective.Sum)
		},
		"nil": func(g collective.Group) collective.Work {
			b := f32(1)
			b.Ptr = nil
			return g.AllReduce(b, collective.Sum)
		},
		"count": func(g collective.Group) collective.Work {
			b := f32(1)
			b.Count = -1
			return g.AllReduce(b, collective.Sum)
		},
	}
	for name, run := range bad {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d ranks", name, n), func(t *testing.T) {
				with(t, open, n, func(t *testing.T, groups []collective.Group) {
					ranks(groups, func(r int, g collective.Group) {
						before := g.AllReduce(f32(1000), collective.Sum)
						if r > 0 { // the others call rightly, and must not hang
							if err := wait(g.Barrier()); !errors.Is(err, collective.ErrPeerLost) || !names(err, 0) {
								t.Errorf("rank %d: %v", r, err)
							}
							return
						}
						if err := wait(run(g)); !errors.Is(err, collective.ErrInvalid) {
							t.Errorf("rank %d: %v", r, err)
						}
						if err := before.Err(); err != nil {
							t.Errorf("rank %d: the operation before it: %v", r, err)
						}
					})
				})
			})
		}
	}
}

// testClosed uses a group after its end.
func testClosed(t *testing.T, open Open) {
	each(t, open, 1, func(t *testing.T, groups []collective.Group) {
		ranks(groups, func(r int, g collective.Group) {
			w := g.AllReduce(f32(100_000), collective.Sum)
			if err := g.Close(); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			if err := w.Err(); err != nil {
				t.Errorf("rank %d: close did not wait for enqueued work: %v", r, err)
			}
			expectBroken(t, r, g, collective.ErrClosed)
			g.Abort(errors.New("late"))
			if err := g.Close(); err != nil {
				t.Errorf("rank %d: close again: %v", r, err)
			}
		})
	})
}

// Missing checks that a rank which never comes is named by the others. open's
// groups must have a deadline of at most a second.
func Missing(t *testing.T, open Open) {
	each(t, open, 2, func(t *testing.T, groups []collective.Group) {
		absent := len(groups) / 2
		ranks(groups, func(r int, g collective.Group) {
			if r == absent {
				return
			}
			err := wait(g.AllReduce(f32(1000), collective.Sum))
			if !errors.Is(err, collective.ErrTimeout) || !names(err, absent) {
				t.Errorf("rank %d: %v", r, err)
			}
			expectBroken(t, r, g, collective.ErrTimeout)
		})
		// It learns of it when it comes. The first operation may go through:
		// the others had sent their parts.
		_ = wait(groups[absent].AllReduce(f32(1000), collective.Sum))
		expectBroken(t, absent, groups[absent], collective.ErrTimeout)
	})
}
