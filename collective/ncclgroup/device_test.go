package ncclgroup

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// A collective on device memory waits for what the compute stream held at the
// call, and Wait returns while all of it still runs.
func TestDeviceBuffersNeverWaitOnTheHost(t *testing.T) {
	rs := start(t, 2, nil)
	release := make(chan struct{})
	rs.each(func(r int, g *group) {
		d := rs.devs[r]
		buf, read := tensor(t, d, []float32{0, 0, 0})
		_ = d.put(d.compute, func() {
			<-release
			copy(read(), []float32{1, 2, float32(r)})
		})
		w := g.AllReduce(buf, collective.Sum)
		if err := wait(w); err != nil { // the compute stream is still held up
			t.Errorf("rank %d: %v", r, err)
		}
		var seen []float32
		_ = d.put(d.compute, func() { seen = slices.Clone(read()) })
		if r == 0 {
			time.AfterFunc(20*time.Millisecond, func() { close(release) })
		}
		d.finish(d.compute)
		if !slices.Equal(seen, []float32{2, 4, 1}) {
			t.Errorf("rank %d: the compute stream saw %v", r, seen)
		}
		if d.waits != 1 {
			t.Errorf("rank %d: the compute stream was made to wait %d times, want 1", r, d.waits)
		}
	})
}

// What the compute stream gets after the call does not hold the collective up.
func TestCollectiveDoesNotWaitForLaterWork(t *testing.T) {
	rs := start(t, 2, nil)
	release := make(chan struct{})
	rs.each(func(r int, g *group) {
		d := rs.devs[r]
		buf, read := tensor(t, d, []int64{int64(r)})
		w := g.AllReduce(buf, collective.Sum)
		_ = d.put(d.compute, func() { <-release })
		<-w.Done() // by the watchdog: nobody has called Wait
		if w.Err() != nil || read()[0] != 1 || w.Elapsed() <= 0 {
			t.Errorf("rank %d: %v, %v, elapsed %v", r, w.Err(), read(), w.Elapsed())
		}
	})
	close(release)
}

func TestEveryOperationOnDeviceBuffers(t *testing.T) {
	rs := start(t, 3, nil)
	rs.each(func(r int, g *group) {
		d := rs.devs[r]
		src, _ := tensor(t, d, []int32{int32(r), int32(r * 10)})
		all, readAll := tensor(t, d, make([]int32, 6))
		big, _ := tensor(t, d, []float64{1, 2, 3, 4, 5, 6})
		part, readPart := tensor(t, d, make([]float64, 2))
		one, readOne := tensor(t, d, []uint8{uint8(r + 5)})
		none := collective.Buffer{DType: collective.Float32, Place: collective.CUDA}
		for _, w := range []collective.Work{
			g.AllGather(all, src), g.ReduceScatter(part, big, collective.Sum), g.Broadcast(one, 2),
			g.AllReduce(none, collective.Sum), g.AllGather(none, none), g.Barrier(),
		} {
			if err := wait(w); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		if !slices.Equal(readAll(), []int32{0, 0, 1, 10, 2, 20}) || readOne()[0] != 7 ||
			!slices.Equal(readPart(), []float64{3 * float64(2*r+1), 3 * float64(2*r+2)}) {
			t.Errorf("rank %d: %v %v %v", r, readAll(), readPart(), readOne())
		}
	})
}

func TestMixedPlacesAreRefused(t *testing.T) {
	rs := start(t, 1, nil)
	dst, _ := tensor(t, rs.devs[0], []int32{1})
	err := wait(rs.groups[0].AllGather(dst, collective.HostBuffer([]int32{1})))
	if !errors.Is(err, collective.ErrInvalid) || !strings.Contains(err.Error(), "dst lies in cuda memory, src in host memory") {
		t.Errorf("error %v", err)
	}
}

// A rank that computes for longer than the deadline is not late itself, and is
// named by those that wait for it.
func TestLongComputationIsNamed(t *testing.T) {
	rs := start(t, 2, func(c *Config) { c.Timeout = time.Second })
	release := make(chan struct{})
	errs := make([]error, 2)
	rs.each(func(r int, g *group) {
		d := rs.devs[r]
		buf, _ := tensor(t, d, []float32{1})
		if err := wait(g.Barrier()); err != nil { // both are there before a clock runs
			t.Error(err)
		}
		if r == 1 {
			_ = d.put(d.compute, func() { <-release })
		}
		w := g.AllReduce(buf, collective.Sum)
		<-w.Done()
		errs[r] = w.Err()
	})
	close(release)
	rs.close() // before the buffers go
	for r, err := range errs {
		if !errors.Is(err, collective.ErrTimeout) || !strings.Contains(err.Error(), "rank 1 has enqueued it but still computes") || !strings.Contains(err.Error(), "rank 0 waited") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The clock of an operation starts when the one before it is done.
func TestQueueDoesNotCount(t *testing.T) {
	var c clock
	a, b := &work{}, &work{}
	if c.tick(a, false) != 0 || c.tick(a, true) > 10*time.Millisecond {
		t.Error("a clock that runs before the device is there")
	}
	time.Sleep(20 * time.Millisecond)
	if c.tick(a, true) < 20*time.Millisecond {
		t.Error("the clock does not run")
	}
	if c.tick(b, true) > 10*time.Millisecond || c.tick(nil, false) != 0 || c.tick(a, true) > 10*time.Millisecond {
		t.Error("the clock was not started anew")
	}
}

func TestDeviceErrorBreaksTheGroup(t *testing.T) {
	rs := start(t, 2, nil)
	xid := errors.New("CUDA_ERROR_ILLEGAL_ADDRESS")
	rs.each(func(r int, g *group) {
		d := rs.devs[r]
		if r == 0 {
			d.mu.Lock()
			d.broken = xid
			d.mu.Unlock()
		}
		err := wait(g.Barrier())
		for r == 1 && err == nil { // the first may have come through
			err = wait(g.Barrier())
		}
		if r == 0 && !errors.Is(err, xid) {
			t.Errorf("rank 0: %v", err)
		}
		if r == 1 && (!errors.Is(err, collective.ErrPeerLost) || !strings.Contains(err.Error(), "rank 0 aborted") || !strings.Contains(err.Error(), xid.Error())) {
			t.Errorf("rank 1: %v", err)
		}
		if r == 0 {
			d.mu.Lock()
			d.broken = nil
			d.mu.Unlock()
		}
	})
}
