package cpu

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// group implements collective.Group.
type group struct {
	name   string
	rank   int
	size   int
	engine *engine // nil in a group of one
	alarm  [2]*os.File
	ended  chan struct{} // closed when the worker has ended
	wake   chan struct{} // cap 1: the worker has something to look at

	mu      sync.Mutex
	queue   []*operation
	head    int // of queue
	seq     uint64
	closing bool
	broken  *failure
}

var _ collective.Group = (*group)(nil)

// solo is a group of one: nothing is ever sent, every operation is done when
// its method returns.
func solo(name string) *group {
	g := &group{name: name, size: 1, ended: make(chan struct{})}
	close(g.ended)
	return g
}

func start(cfg Config, fds []int) (*group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	g := &group{
		name: cfg.Name, rank: cfg.Rank, size: cfg.Size, alarm: [2]*os.File{r, w},
		ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	g.engine = newEngine(cfg.Rank, cfg.Size, cfg.Timeout, fds, int(r.Fd()))
	go g.work()
	return g, nil
}

func (g *group) Rank() int       { return g.rank }
func (g *group) Size() int       { return g.size }
func (g *group) Backend() string { return "cpu" }

func (g *group) AllReduce(buf collective.Buffer, op collective.ReduceOp) collective.Work {
	return g.enqueue(spec{op: opAllReduce, dtype: buf.DType, reduce: op, count: uint64(buf.Count)}, buf, buf)
}

func (g *group) Broadcast(buf collective.Buffer, root int) collective.Work {
	return g.enqueue(spec{op: opBroadcast, dtype: buf.DType, root: uint64(root), count: uint64(buf.Count)}, buf, buf)
}

func (g *group) AllGather(dst, src collective.Buffer) collective.Work {
	return g.enqueue(spec{op: opAllGather, dtype: src.DType, count: uint64(src.Count)}, dst, src)
}

func (g *group) ReduceScatter(dst, src collective.Buffer, op collective.ReduceOp) collective.Work {
	return g.enqueue(spec{op: opReduceScatter, dtype: dst.DType, reduce: op, count: uint64(dst.Count)}, dst, src)
}

func (g *group) Barrier() collective.Work {
	nothing := collective.Buffer{DType: collective.Uint8, Place: collective.Host}
	return g.enqueue(spec{op: opBarrier}, nothing, nothing)
}

// where begins every error message of the group.
func (g *group) where(s spec) string {
	return fmt.Sprintf("group %q, rank %d: %v", g.name, g.rank, s)
}

func (g *group) enqueue(s spec, dst, src collective.Buffer) collective.Work {
	o := &operation{spec: s, work: work{done: make(chan struct{})}}
	if o.invalid = check(&s, dst, src, g.rank, g.size); o.invalid == nil {
		o.dst, o.src = memory(dst), memory(src)
	}
	g.mu.Lock()
	o.seq = g.seq
	g.seq++
	f, closed := g.broken, g.closing
	if f == nil && !closed {
		if g.engine == nil {
			g.alone(o)
		} else {
			g.queue = append(g.queue, o)
		}
	}
	g.mu.Unlock()
	switch {
	case f != nil:
		o.finish(f.later(g.where(o.spec)), 0)
	case closed:
		o.finish(fmt.Errorf("%s: %w", g.where(o.spec), collective.ErrClosed), 0)
	case g.engine != nil:
		g.signal()
	}
	return o
}

// alone does an operation of a group of one, under the lock.
func (g *group) alone(o *operation) {
	if o.invalid != nil {
		g.broken = invalid(g.rank, o)
		o.finish(g.broken.explain(g.where(o.spec)), 0)
		return
	}
	copy(o.dst, o.src)
	o.finish(nil, 0)
}

func (g *group) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// work is the worker: it runs operations until the group is closed or broken.
func (g *group) work() {
	defer close(g.ended)
	var last uint64
	for {
		o, f := g.next()
		if o == nil && f == nil {
			f = &failure{class: classClosed, rank: g.rank, source: -1}
			g.engine.farewell(f, last)
			break
		}
		begin := time.Now()
		if f == nil && o.invalid != nil {
			f = invalid(g.rank, o)
		}
		if f == nil {
			f = g.engine.run(o)
		}
		if f != nil {
			g.end(o, f, last)
			break
		}
		last = o.seq
		o.finish(nil, time.Since(begin))
	}
	_ = g.alarm[0].Close()
	g.mu.Lock() // Abort may be about to ring
	_ = g.alarm[1].Close()
	g.mu.Unlock()
}

// next waits for an operation; none and no failure: the group is closed.
func (g *group) next() (*operation, *failure) {
	for {
		g.mu.Lock()
		f, closing := g.broken, g.closing
		var o *operation
		if f == nil && g.head < len(g.queue) {
			o = g.queue[g.head]
			g.queue[g.head] = nil
			if g.head++; g.head == len(g.queue) {
				g.queue, g.head = g.queue[:0], 0
			}
		}
		g.mu.Unlock()
		if o != nil || f != nil || closing {
			return o, f
		}
		<-g.wake
	}
}

// end breaks the group: peers are told first, because the operation's buffers
// may still be needed for the frame that is under way.
func (g *group) end(current *operation, f *failure, last uint64) {
	g.mu.Lock()
	if g.broken == nil {
		g.broken = f
	}
	f = g.broken
	waiting := g.queue[g.head:]
	g.queue, g.head = nil, 0
	g.mu.Unlock()
	g.engine.farewell(f, last)
	if current != nil {
		current.finish(f.explain(g.where(current.spec)), 0)
	}
	for _, o := range waiting {
		o.finish(f.explain(g.where(o.spec)), 0)
	}
}

// Abort implements collective.Group. When it returns, the peers have been told
// as far as they listen, and all work has ended.
func (g *group) Abort(cause error) {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	g.mu.Lock()
	first := g.broken == nil
	if first {
		g.broken = aborted(g.rank, cause)
	}
	if first && g.engine != nil {
		g.engine.stopped.Store(true)
		_, _ = g.alarm[1].Write([]byte{1})
	}
	g.mu.Unlock()
	if g.engine != nil {
		g.signal()
	}
	<-g.ended
}

// Close implements collective.Group.
func (g *group) Close() error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	if g.engine != nil {
		g.signal()
	}
	<-g.ended
	return nil
}
