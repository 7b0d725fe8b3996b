package nccl

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Times that bound waiting for NCCL where the caller's context does not.
const (
	// callGrace is how long Abort lets a call under way notice before it
	// aborts beside it, which NCCL allows.
	callGrace = time.Second
	// abortLimit bounds the abort of a communicator that failed to come up.
	abortLimit = 5 * time.Second
)

// Comm is a communicator: one rank's end of a set of ranks. Its calls are
// serialised; see the package comment about threads.
type Comm struct {
	lib      *Library
	rank     int
	size     int
	blocking bool

	aborting atomic.Bool
	aborted  chan struct{} // closed when NCCL has answered the abort
	mu       sync.Mutex    // held during a call
	raw      rawComm
	gone     bool // raw is freed, or left to a call that never returned
}

// InitRank joins the communicator of size ranks that have the same id. It
// returns when all ranks have joined, or with ctx's error; then nothing is
// left of it. Unlike NCCL's own it never blocks beyond ctx (see
// Config.Blocking).
func (l *Library) InitRank(ctx context.Context, size int, id UniqueID, rank int, cfg Config) (*Comm, error) {
	c := &Comm{lib: l, rank: rank, size: size, blocking: cfg.Blocking, aborted: make(chan struct{}), raw: newRawComm(l.version, cfg)}
	err := c.call(ctx, "ncclCommInitRankConfig", func() Result { return l.api.commInitRank(c.raw, size, &id, rank) })
	if err != nil {
		c.discard()
		return nil, fmt.Errorf("rank %d of %d: %w", rank, size, err)
	}
	return c, nil
}

// discard frees a communicator that did not come up. Part of it may live in
// NCCL's threads, so it is aborted.
func (c *Comm) discard() {
	if !c.raw.exists() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = true
		c.raw.free()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
	defer cancel()
	_ = c.Abort(ctx) // the error to report is the first one
}

// NoColor, as Split's color, means: in no child.
const NoColor = -1

// Split divides the communicator: ranks with the same color become one child,
// ordered by key, then by rank. Every rank calls it; with NoColor the child is
// nil. The parent must have nothing in flight that waits for the host.
func (c *Comm) Split(ctx context.Context, color, key int, cfg Config) (*Comm, error) {
	child := &Comm{lib: c.lib, blocking: cfg.Blocking, aborted: make(chan struct{}), raw: newRawComm(c.lib.version, cfg)}
	err := c.call(ctx, "ncclCommSplit", func() Result { return c.lib.api.commSplit(c.raw, color, key, child.raw) })
	if err == nil && color == NoColor {
		child.raw.free()
		return nil, nil
	}
	if err == nil {
		// The parent is done; the child may still be setting up.
		err = child.call(ctx, "ncclCommSplit", func() Result { return InProgress })
	}
	if err == nil {
		child.rank, err = child.number("ncclCommUserRank", c.lib.api.commUserRank)
	}
	if err == nil {
		child.size, err = child.number("ncclCommCount", c.lib.api.commCount)
	}
	if err != nil {
		child.discard()
		return nil, fmt.Errorf("rank %d of %d: color %d: %w", c.rank, c.size, color, err)
	}
	return child, nil
}

// Rank is this end's place in the communicator.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.size }

// Device is the index of the communicator's CUDA device in this process.
func (c *Comm) Device() (int, error) { return c.number("ncclCommCuDevice", c.lib.api.commCuDevice) }

func (c *Comm) number(call string, f func(rawComm) (int, Result)) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return 0, fmt.Errorf("%s: %w", call, ErrAborted)
	}
	n, r := f(c.raw)
	return n, c.lib.check(call, r, &c.raw)
}

// AsyncError is what went wrong in the background since the last call: a lost
// peer, a failed network. It is nil while another call is under way, which
// reports for itself.
func (c *Comm) AsyncError() error {
	if !c.mu.TryLock() {
		return nil
	}
	defer c.mu.Unlock()
	if c.gone {
		return ErrAborted
	}
	state, r := c.lib.api.commGetAsyncError(c.raw)
	if r != Success {
		return c.lib.check("ncclCommGetAsyncError", r, &c.raw)
	}
	if state == InProgress {
		return nil
	}
	return c.lib.check("asynchronous", state, &c.raw)
}

// Finalize waits until all ranks have called it and all work is done. After
// it, Destroy frees the rest without waiting for anybody. After a peer's
// failure it would wait for the dead: call Abort.
func (c *Comm) Finalize(ctx context.Context) error {
	return c.call(ctx, "ncclCommFinalize", func() Result { return c.lib.api.commFinalize(c.raw) })
}

// Destroy frees a finalized communicator.
func (c *Comm) Destroy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return fmt.Errorf("ncclCommDestroy: %w", ErrAborted)
	}
	c.gone = true
	if err := c.lib.check("ncclCommDestroy", c.lib.api.commDestroy(c.raw), &c.raw); err != nil {
		return err // what NCCL may still use is not freed
	}
	c.raw.free()
	return nil
}

// Abort stops what is in flight on the device and frees the communicator. A
// call under way on another goroutine ends with ErrAborted. It may be called
// from anywhere, also twice; an error means that NCCL had not answered when
// ctx ended, and nothing more can be done about it in this process.
func (c *Comm) Abort(ctx context.Context) error {
	if c.aborting.CompareAndSwap(false, true) {
		locked := c.lockWithin(ctx, callGrace)
		if locked && c.gone { // destroyed
			close(c.aborted)
			c.mu.Unlock()
			return nil
		}
		go c.abort(locked)
	}
	select {
	case <-c.aborted:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ncclCommAbort has not returned: %w", context.Cause(ctx))
	}
}

// abort runs on a goroutine, and an OS thread, of its own, since NCCL may
// never answer. The thread is not unlocked: it ends with the goroutine, and
// with it whatever device NCCL left current on it.
func (c *Comm) abort(locked bool) {
	runtime.LockOSThread()
	defer close(c.aborted)
	r := c.lib.api.commAbort(c.raw)
	if !locked {
		return // a call still holds the memory
	}
	c.gone = true
	if r == Success || r == InProgress {
		c.raw.free()
	}
	c.mu.Unlock()
}

// lockWithin takes the lock unless a call holds it for longer than d.
func (c *Comm) lockWithin(ctx context.Context, d time.Duration) bool {
	deadline := time.Now().Add(d)
	for !c.mu.TryLock() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}

// call makes one call and waits until NCCL has taken it in.
func (c *Comm) call(ctx context.Context, name string, f func() Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.aborting.Load() {
		return fmt.Errorf("%s: %w", name, ErrAborted)
	}
	r := f()
	for tries := 0; r == InProgress; tries++ {
		if c.aborting.Load() {
			return fmt.Errorf("%s: %w", name, ErrAborted)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
		if tries > 0 {
			pause(tries)
		}
		if !c.raw.exists() {
			continue // NCCL has not stored the handle yet
		}
		state, result := c.lib.api.commGetAsyncError(c.raw)
		if r = state; result != Success {
			r = result
		}
	}
	return c.lib.check(name, r, &c.raw)
}

// pause waits between polls: not at all at first, since an enqueued collective
// takes some ten microseconds, then ever longer.
func pause(tries int) {
	const spins = 64
	if tries < spins {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(tries-spins+1)*20*time.Microsecond, 5*time.Millisecond))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
