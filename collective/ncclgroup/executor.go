package ncclgroup

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/nccl"
)

// execute owns the communicator: it makes it, issues the operations in their
// order, and takes everything down. It keeps its OS thread, which ends with
// it.
func (g *group) execute(ctx context.Context, started chan<- error) {
	runtime.LockOSThread()
	defer close(g.ended)
	err := g.setUp(ctx)
	if err != nil {
		g.fail(g.ownFailure(err))
		g.tearDown()
		started <- err
		return
	}
	g.helpers.Go(g.watch)
	g.helpers.Go(g.pulse)
	started <- nil
	for {
		w := g.next()
		if w == nil {
			break
		}
		if err := g.issue(w); err != nil {
			g.fail(err)
		}
	}
	g.leave()
	g.tearDown()
}

// setUp makes the stream and, with all other ranks, the communicator.
func (g *group) setUp(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.InitTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(g.ctx, func() { stop(context.Cause(g.ctx)) })()

	if err := g.dev.Bind(); err != nil {
		return exitcode.With(fmt.Errorf("binding the device: %w", err), exitcode.Machine)
	}
	if g.stream, err = g.dev.NewStream(); err != nil {
		return exitcode.With(fmt.Errorf("making a stream: %w", err), exitcode.Machine)
	}
	if g.token, err = g.dev.Alloc(collective.Int32.Size()); err != nil {
		return exitcode.With(fmt.Errorf("allocating device memory: %w", err), exitcode.Machine)
	}
	id, err := g.meet(ctx)
	if err != nil {
		return err
	}
	comm, err := g.join(ctx, id)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.comm = comm
	f := g.broken
	g.mu.Unlock()
	if f != nil { // it broke too early to be aborted with
		g.abort(comm)
		return f.explain("setting up")
	}
	return nil
}

// next waits for an operation; nil: the group is closed or broken.
func (g *group) next() *work {
	for {
		g.mu.Lock()
		broken, closing := g.broken != nil, g.closing
		var w *work
		if !broken && len(g.queue) > 0 {
			w = g.queue[0]
			g.queue = g.queue[1:]
			g.running = append(g.running, w)
		}
		g.mu.Unlock()
		switch {
		case w != nil:
			return w
		case broken, closing:
			return nil
		}
		<-g.wake
	}
}

// issue puts one operation onto the group's stream.
func (g *group) issue(w *work) *failure {
	g.reap()
	if w.invalid != nil {
		g.drain()
		f := g.ownFailure(w.invalid)
		f.Text = fmt.Sprintf("rank %d aborted: %v: %v", g.cfg.Rank, w.spec, w.invalid)
		return f
	}
	if f := g.compare(w); f != nil {
		return f
	}
	if err := g.transfer(w); err != nil {
		f := g.ownFailure(err)
		f.Text = fmt.Sprintf("rank %d aborted: %v: %v", g.cfg.Rank, w.spec, err)
		return f
	}
	close(w.issued)
	if g.asked.Load() > 0 {
		ring(g.poke)
	}
	return nil
}

// drain waits until the operations before the one being issued are done.
func (g *group) drain() {
	for g.ctx.Err() == nil {
		g.reap()
		g.mu.Lock()
		n := len(g.running)
		g.mu.Unlock()
		if n <= 1 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// compare checks that this rank's operation is the other ranks'.
func (g *group) compare(w *work) *failure {
	due := w.host || w.seq < checkedAtStart || g.cfg.Check == CheckAll
	if !due || g.cfg.Size == 1 || g.mute.Load() {
		return nil
	}
	other, theirs, first, err := g.board.agree(g.ctx, w.seq, w.String())
	switch {
	case err != nil:
		g.silence(err)
		return nil
	case first:
		g.mu.Lock()
		g.owned = append(g.owned, w.seq)
		g.mu.Unlock()
		return nil
	case theirs == farewell:
		return g.failed(classClosed, "rank %d has left: it closed its group before operation #%d", other, w.seq)
	case theirs != w.String():
		return g.failed(classMismatch, "%s", disagreement(g.cfg.Rank, w.String(), other, theirs))
	}
	return nil
}

// silence notes that the store has failed: it is where the launcher lives, and
// the launcher decides what becomes of a rank without one.
func (g *group) silence(err error) {
	if g.ctx.Err() == nil && !g.mute.Swap(true) {
		g.warn("the store has failed, so operations are not compared and failures of peers not told any more: %v", err)
	}
}

// transfer enqueues the operation and the events around it.
func (g *group) transfer(w *work) (err error) {
	if w.first, err = g.events.get(true); err != nil {
		return err
	}
	if w.last, err = g.events.get(true); err != nil {
		return err
	}
	if w.ready != 0 {
		if err := g.dev.StreamWaitEvent(g.stream, w.ready); err != nil {
			return err
		}
	}
	if err := g.dev.RecordEvent(w.first, g.stream); err != nil {
		return err
	}
	switch {
	case w.kind == barrier:
		err = g.comm.AllReduce(g.ctx, g.token, g.token, 1, nccl.Int32, nccl.Sum, g.stream)
	case w.count == 0: // nothing moves, and NCCL would refuse nil addresses
	case w.host:
		err = g.stage(w)
	default:
		err = g.call(w, address(w.dst), address(w.src))
	}
	if err != nil {
		return err
	}
	return g.dev.RecordEvent(w.last, g.stream)
}

// stage runs an operation on host buffers in a slot, in place: the rank's own
// part of the larger buffer lies where it belongs.
func (g *group) stage(w *work) error {
	whole, part := max(w.dst.Bytes(), w.src.Bytes()), min(w.dst.Bytes(), w.src.Bytes())
	s, err := g.slots.get(whole)
	if err != nil {
		return err
	}
	w.slot = s
	own := g.cfg.Rank * part
	in, out, dst, src := 0, 0, s.addr, s.addr
	switch w.kind {
	case allGather:
		in, src = own, s.addr+uintptr(own)
	case reduceScatter:
		out, dst = own, s.addr+uintptr(own)
	}
	from, to := s.mem[in:in+w.src.Bytes()], s.mem[out:out+w.dst.Bytes()]
	s.result = to
	if w.kind != broadcast || w.root == g.cfg.Rank {
		copy(from, memory(w.src))
		if err := g.dev.CopyToDevice(src, from, g.stream); err != nil {
			return err
		}
	}
	if err := g.call(w, dst, src); err != nil {
		return err
	}
	return g.dev.CopyToHost(to, dst, g.stream)
}

// call is NCCL's own.
func (g *group) call(w *work, dst, src uintptr) error {
	t, op := dataTypes[w.dtype], reductions[w.reduce]
	switch w.kind {
	case broadcast:
		return g.comm.Broadcast(g.ctx, src, dst, w.count, t, w.root, g.stream)
	case allGather:
		return g.comm.AllGather(g.ctx, src, dst, w.count, t, g.stream)
	case reduceScatter:
		return g.comm.ReduceScatter(g.ctx, src, dst, w.count, t, op, g.stream)
	}
	return g.comm.AllReduce(g.ctx, src, dst, w.count, t, op, g.stream)
}

// farewell stands in the store where an operation would.
const farewell = "close"

// leave ends a group that was closed in good order.
func (g *group) leave() {
	for !g.idle() {
		g.reap()
		time.Sleep(50 * time.Microsecond)
	}
	if f := g.depart(); f != nil {
		g.fail(f)
	}
	g.mu.Lock()
	if g.broken != nil {
		g.mu.Unlock()
		<-g.down
		return
	}
	g.finished = true // from here on nobody else aborts
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.ctx, finalizeLimit)
	defer cancel()
	if err := g.comm.Finalize(ctx); err != nil {
		g.abort(g.comm)
		return
	}
	if err := g.comm.Destroy(); err != nil {
		g.stuck.Store(true)
		g.warn("destroying the communicator: %v", err)
	}
}

// idle says that nothing is in flight, or the group broken.
func (g *group) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running) == 0 || g.broken != nil
}

// depart tells the other ranks that no operation of this one will follow. It
// is a failure when one of them has issued another.
func (g *group) depart() *failure {
	if g.cfg.Size == 1 || g.mute.Load() || g.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, publishLimit)
	defer cancel()
	g.mu.Lock()
	seq := g.seq
	g.mu.Unlock()
	if err := g.board.store.Set(ctx, of("left", g.cfg.Rank), said); err != nil {
		g.silence(err)
		return nil
	}
	_, theirs, _, err := g.board.agree(ctx, seq, farewell)
	if err != nil {
		g.silence(err)
		return nil
	}
	if theirs != farewell {
		return g.failed(classClosed, "rank %d has left: it closed its group before operation #%d", g.cfg.Rank, seq)
	}
	return nil
}

// tearDown frees what the group has on the device, once the device is through
// with it.
func (g *group) tearDown() {
	if !g.stuck.Load() && !g.drained() {
		g.stuck.Store(true)
	}
	g.cancel(collective.ErrClosed)
	g.helpers.Wait()
	if g.stuck.Load() {
		g.warn("the device has not come to an end with the group's stream: its memory is left to the end of the process")
		return
	}
	report := func(err error) {
		if err != nil {
			g.warn("freeing: %v", err)
		}
	}
	report(g.slots.drop())
	report(g.events.drop())
	if g.token != 0 {
		report(g.dev.Free(g.token))
	}
	if g.stream != 0 {
		report(g.dev.FreeStream(g.stream))
	}
}

// drained waits for the group's stream, which an abort frees of what hangs.
func (g *group) drained() bool {
	if g.stream == 0 {
		return true
	}
	e, err := g.events.get(false)
	if err != nil || g.dev.RecordEvent(e, g.stream) != nil {
		return false
	}
	for deadline := time.Now().Add(drainLimit); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if done, err := g.dev.EventDone(e); done || err != nil {
			return err == nil
		}
	}
	return false
}
