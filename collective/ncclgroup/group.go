package ncclgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// group implements collective.Group.
type group struct {
	cfg    Config
	dev    Device
	lib    library
	board  *board
	born   time.Time
	events *eventPool
	slots  *slotPool
	stream uintptr // the group's own
	token  uintptr // device memory that barriers reduce

	ctx     context.Context // ends when the group breaks or is closed
	cancel  context.CancelCauseFunc
	helpers sync.WaitGroup
	wake    chan struct{} // cap 1: the executor has something to look at
	poke    chan struct{} // cap 1: so has the watchdog
	down    chan struct{} // closed when a broken group's work has all ended
	ended   chan struct{} // closed when nothing of the group runs any more
	asked   atomic.Int32  // works that someone waits for by Done
	stuck   atomic.Bool   // the device may still use the group's memory
	mute    atomic.Bool   // the store has failed: nothing more is compared

	// reaping orders the ends of operations; it is taken before mu.
	reaping sync.Mutex
	garbage []uint64 // op keys of this rank that may be deleted

	mu       sync.Mutex
	comm     communicator
	queue    []*work // enqueued, not issued
	running  []*work // issued, or being issued, oldest first
	ops      []string
	seq      uint64
	owned    []uint64 // op keys that this rank was first to set
	closing  bool
	finished bool
	broken   *failure
}

var _ collective.Group = (*group)(nil)

// remembered is the number of operations whose texts are kept for a verdict.
const remembered = 256

// open starts a group.
func open(ctx context.Context, cfg Config, lib library) (*group, error) {
	g := &group{
		cfg: cfg, dev: cfg.Device, lib: lib, board: newBoard(cfg), born: time.Now(),
		events: newEventPool(cfg.Device), slots: newSlotPool(cfg.Device),
		wake: make(chan struct{}, 1), poke: make(chan struct{}, 1),
		down: make(chan struct{}), ended: make(chan struct{}),
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	started := make(chan error, 1)
	g.helpers.Go(g.listen)
	go g.execute(ctx, started)
	if err := <-started; err != nil {
		<-g.ended
		return nil, err
	}
	return g, nil
}

func (g *group) Rank() int       { return g.cfg.Rank }
func (g *group) Size() int       { return g.cfg.Size }
func (g *group) Backend() string { return "nccl" }

func (g *group) AllReduce(buf collective.Buffer, op collective.ReduceOp) collective.Work {
	return g.enqueue(spec{kind: allReduce, dtype: buf.DType, reduce: op, count: buf.Count}, buf, buf)
}

func (g *group) Broadcast(buf collective.Buffer, root int) collective.Work {
	return g.enqueue(spec{kind: broadcast, dtype: buf.DType, root: root, count: buf.Count}, buf, buf)
}

func (g *group) AllGather(dst, src collective.Buffer) collective.Work {
	return g.enqueue(spec{kind: allGather, dtype: src.DType, count: src.Count}, dst, src)
}

func (g *group) ReduceScatter(dst, src collective.Buffer, op collective.ReduceOp) collective.Work {
	return g.enqueue(spec{kind: reduceScatter, dtype: dst.DType, reduce: op, count: dst.Count}, dst, src)
}

// Barrier is an all-reduce of one element that the host waits for.
func (g *group) Barrier() collective.Work {
	nothing := collective.Buffer{DType: collective.Int32, Place: collective.Host}
	return g.enqueue(spec{kind: barrier, dtype: collective.Int32, count: 1}, nothing, nothing)
}

// where begins every error message of the group.
func (g *group) where(s spec) string {
	return fmt.Sprintf("group %q, rank %d: %v", g.cfg.Name, g.cfg.Rank, s)
}

func (g *group) enqueue(s spec, dst, src collective.Buffer) collective.Work {
	w := &work{
		spec: s, g: g, dst: dst, src: src, host: src.Place != collective.CUDA,
		issued: make(chan struct{}), done: make(chan struct{}),
	}
	w.invalid = check(s, dst, src, g.cfg.Rank, g.cfg.Size)
	g.mu.Lock()
	w.seq = g.seq
	f, closed := g.broken, g.closing
	if f == nil && !closed {
		g.seq++
		g.remember(w.String())
		if w.invalid == nil && !w.host {
			w.invalid = g.mark(w)
		}
		g.queue = append(g.queue, w)
	}
	g.mu.Unlock()
	switch {
	case f != nil:
		<-g.down // so that earlier work has ended when later work does
		w.end(f.later(g.where(w.spec)), 0)
	case closed:
		w.end(fmt.Errorf("%s: %w", g.where(w.spec), collective.ErrClosed), 0)
	default:
		g.signal()
	}
	return w
}

// mark remembers what the compute stream holds now: the operation waits for
// that, and for nothing that comes later.
func (g *group) mark(w *work) (err error) {
	if w.ready, err = g.events.get(false); err != nil {
		return err
	}
	return g.dev.RecordEvent(w.ready, g.dev.ComputeStream())
}

// remember keeps the texts of the last operations; under mu.
func (g *group) remember(text string) {
	if len(g.ops) == 2*remembered {
		g.ops = append(g.ops[:0], g.ops[remembered:]...)
	}
	g.ops = append(g.ops, text)
}

func (g *group) signal() { ring(g.wake) }

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// ask notes that someone waits for the end of w without calling Wait.
func (g *group) ask(w *work) {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	select {
	case <-w.done:
		return
	default:
	}
	if !w.asked {
		w.asked = true
		g.asked.Add(1)
		ring(g.poke)
	}
}

// reap ends the operations that are done, in their order.
func (g *group) reap() {
	if err := g.reapSome(); err != nil {
		f := g.ownFailure(err)
		g.fail(f)
	}
}

func (g *group) reapSome() error {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	for {
		w := g.head()
		if w == nil {
			return nil
		}
		select {
		case <-w.issued:
		default:
			return nil
		}
		done, err := g.dev.EventDone(w.last)
		if err != nil {
			return fmt.Errorf("%s: the device reports: %w", g.where(w.spec), err)
		}
		if !done || g.head() != w { // looked at again: it was done before any abort began
			return nil
		}
		g.retire(w)
		w.finish()
	}
}

// head is the oldest operation that is issued, or being issued, and not done.
// A broken group has none: an abort makes the device run to the end of what
// hung, which must not pass for success.
func (g *group) head() *work {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 || g.broken != nil {
		return nil
	}
	return g.running[0]
}

// retire takes the oldest operation off the list, and with it the op keys that
// no rank needs any more; under reaping.
func (g *group) retire(w *work) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = g.running[1:]
	if !w.gathers() {
		return
	}
	n := 0
	for n < len(g.owned) && g.owned[n] <= w.seq {
		n++
	}
	g.garbage = append(g.garbage, g.owned[:n]...)
	g.owned = append(g.owned[:0], g.owned[n:]...)
}

// state is what this rank tells others about itself.
func (g *group) state() state {
	g.mu.Lock()
	s := state{Next: g.seq, Done: g.seq - uint64(len(g.queue)+len(g.running)), First: g.seq - uint64(len(g.ops)), Left: g.closing}
	s.Ops = append(s.Ops, g.ops...)
	g.mu.Unlock()
	if w := g.head(); w != nil {
		reached, err := g.reached(w)
		s.Computing = err == nil && !reached
	}
	return s
}

// reached says whether the device has come to the operation.
func (g *group) reached(w *work) (bool, error) {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	select {
	case <-w.done:
		return true, nil
	default:
	}
	if w.ready == 0 {
		return true, nil
	}
	return g.dev.EventDone(w.ready)
}

// Close implements collective.Group. When the other ranks do not close theirs
// within ten seconds, the rest is freed without them; the work was done.
func (g *group) Close() error {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	g.signal()
	<-g.ended
	return nil
}
