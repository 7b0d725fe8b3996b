//go:build cuda

package ncclgroup

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/collectivetest"
	"github.com/ddprun/ddprun/nccl"
)

func TestGPUSuiteOnHostBuffers(t *testing.T) {
	collectivetest.Run(t, newPool(t).openIn(false, time.Minute))
}

func TestGPUSuiteOnDeviceBuffers(t *testing.T) {
	collectivetest.Run(t, newPool(t).openIn(true, time.Minute))
}

// A collective that one rank leaves out is explained, with the rank.
func TestGPUMissingRank(t *testing.T) {
	collectivetest.Missing(t, newPool(t).openIn(true, time.Second))
}

// A rank whose process is killed in the middle of a collective is named by the
// others within seconds.
func TestGPUKilledRank(t *testing.T) {
	p := newPool(t)
	for _, size := range []int{2, 4} {
		groups := p.openIn(true, time.Minute)(t, size)
		victim := size - 1
		var wg sync.WaitGroup
		for r, g := range groups {
			wg.Go(func() {
				if err := wait(g.AllReduce(collective.HostBuffer(make([]float32, 1<<20)), collective.Sum)); err != nil {
					t.Errorf("%d ranks, rank %d, with all alive: %v", size, r, err)
				}
			})
		}
		wg.Wait()
		begin := time.Now()
		for r, g := range groups {
			if r == victim {
				continue
			}
			wg.Go(func() {
				err := wait(g.AllReduce(collective.HostBuffer(make([]float32, 1<<20)), collective.Sum))
				t.Logf("%d ranks, rank %d after %v: %v", size, r, time.Since(begin).Round(time.Millisecond), err)
				if !errors.Is(err, collective.ErrPeerLost) || !strings.Contains(err.Error(), "rank "+string(rune('0'+victim))) {
					t.Errorf("%d ranks, rank %d: the victim is not named: %v", size, r, err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		p.children[victim].kill()
		wg.Wait()
		for r, g := range groups {
			if r != victim {
				_ = g.Close()
			}
		}
	}
}

// TestGPUOverhead logs what a collective costs the host, with one rank: it
// judges nothing.
func TestGPUOverhead(t *testing.T) {
	dev, err := openDriver()
	if err != nil {
		t.Fatal(err)
	}
	const count, rounds = 1024, 2000
	addr, err := dev.Alloc(4 * count)
	if err != nil {
		t.Fatal(err)
	}
	for _, blocking := range []bool{false, true} {
		g, err := New(t.Context(), Config{Size: 1, Store: newStore(t).Local(), Device: dev, Comm: nccl.Config{Blocking: blocking}})
		if err != nil {
			t.Fatal(err)
		}
		b := deviceBuffer(addr, count)
		for _, n := range []int{10, rounds} { // the first ones connect
			begin := time.Now()
			var called time.Duration
			for range n {
				at := time.Now()
				w := g.AllReduce(b, collective.Sum)
				called += time.Since(at)
				if err := w.Wait(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			enqueued := time.Since(begin)
			if err := dev.synchronize(dev.compute); err != nil {
				t.Fatal(err)
			}
			t.Logf("blocking calls %v, %d all-reduces: call %v, call and wait %v, until done %v each", blocking, n,
				called/time.Duration(n), enqueued/time.Duration(n), time.Since(begin)/time.Duration(n))
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func deviceBuffer(addr uintptr, count int) collective.Buffer {
	return collective.Buffer{Ptr: *(*unsafe.Pointer)(unsafe.Pointer(&addr)), Count: count, DType: collective.Float32, Place: collective.CUDA}
}
