package ncclgroup

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/ddprun/ddprun/nccl"
)

// Intervals of the watchdog and of the signs of life.
const (
	lookEvery = 100 * time.Millisecond
	lookOften = 200 * time.Microsecond // while someone waits by Done
	beatEvery = 500 * time.Millisecond
	// silence of a process that counts as its end once NCCL has lost a peer
	beatPatience = 1200 * time.Millisecond
	// answerLimit is how long ranks have to say what they are doing.
	answerLimit = time.Second
	// tellLimit is how long the rank that finds out for all may take.
	tellLimit = 4 * time.Second
	// reasonLimit is how long a peer's own word is waited for once its
	// connection is gone; it is written before the connection is cut.
	reasonLimit = 300 * time.Millisecond
)

// watch looks for errors and deadlines until the group ends.
func (g *group) watch() {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	var clock clock
	var looked time.Time
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.poke:
		case <-timer.C:
		}
		g.reap()
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			g.look(&clock)
		}
		next := lookEvery
		if g.asked.Load() > 0 {
			next = lookOften
		}
		timer.Reset(next)
	}
}

// clock times the oldest operation.
type clock struct {
	of    *work
	since time.Time // zero: the device has not reached it
}

// tick says how long the operation w has been what the group is doing.
func (c *clock) tick(w *work, reached bool) time.Duration {
	if c.of != w {
		c.of, c.since = w, time.Time{}
	}
	if w == nil || !reached {
		return 0
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	return time.Since(c.since)
}

func (g *group) look(c *clock) {
	g.mu.Lock()
	comm, finished := g.comm, g.finished || g.broken != nil
	g.mu.Unlock()
	if finished {
		return
	}
	if err := comm.AsyncError(); err != nil && !errors.Is(err, nccl.ErrAborted) {
		g.lost(err)
		return
	}
	w := g.head()
	reached := false
	if w != nil {
		var err error
		if reached, err = g.reached(w); err != nil {
			g.fail(g.ownFailure(err))
			return
		}
	}
	if took := c.tick(w, reached); took > g.cfg.Timeout {
		g.overdue(w, took)
	}
}

// lost finds out who is behind an asynchronous error: a rank that has said so,
// or one whose process is silent.
func (g *group) lost(cause error) {
	ctx, cancel := context.WithTimeout(g.ctx, reasonLimit)
	f, err := g.board.told(ctx)
	cancel()
	if err == nil {
		g.fail(f)
		return
	}
	if !errors.Is(cause, nccl.RemoteError) && !errors.Is(cause, nccl.SystemError) {
		g.fail(g.ownFailure(cause))
		return
	}
	if g.wait(g.board.elect) {
		return
	}
	who := "a rank that cannot be told (every process is alive)"
	if ranks, err := g.board.silent(g.ctx, beatPatience); err != nil {
		who = "a rank that cannot be told (" + err.Error() + ")"
	} else if len(ranks) > 0 {
		who = list(ranks) + ", whose process is silent"
	}
	g.fail(g.failed(classLost, "lost %s: rank %d: %v", who, g.cfg.Rank, cause))
}

// overdue finds out why an operation has passed its deadline.
func (g *group) overdue(w *work, took time.Duration) {
	if g.wait(g.board.elect) {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, answerLimit)
	states := g.board.states(ctx)
	cancel()
	class, why := verdict(w.spec, g.cfg.Rank, g.cfg.Size, states)
	if class == classMismatch {
		g.fail(g.failed(class, "%s", why))
		return
	}
	g.fail(g.failed(class, "rank %d waited %v for %v: %s", g.cfg.Rank, took.Round(10*time.Millisecond), w.spec, why))
}

// wait leaves it to another rank to find out, if one is about to. It says
// whether the group has broken meanwhile.
func (g *group) wait(elect func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(g.ctx, tellLimit)
	defer cancel()
	if elect(ctx) {
		return g.ctx.Err() != nil
	}
	<-ctx.Done()
	return g.ctx.Err() != nil
}

// listen waits for other ranks' words: that the group is broken, and that they
// want to know what this one is doing.
func (g *group) listen() {
	g.helpers.Go(func() {
		if _, err := g.board.store.Get(g.ctx, "diagnose"); err != nil {
			return // told finds the same
		}
		if err := g.board.setJSON(g.ctx, of("state", g.cfg.Rank), g.state()); err != nil {
			g.silence(err)
		}
	})
	f, err := g.board.told(g.ctx)
	if err != nil {
		g.silence(err)
		return
	}
	g.fail(f)
}

// pulse gives signs of life, watches the next rank's, and clears away keys
// that all ranks have passed.
func (g *group) pulse() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	next := neighbour{rank: (g.cfg.Rank + 1) % g.cfg.Size}
	for n := int64(1); ; n++ {
		if err := g.board.store.Set(g.ctx, of("beat", g.cfg.Rank), strconv.AppendInt(nil, n, 10)); err != nil {
			g.silence(err)
			return
		}
		g.sweep()
		if g.cfg.Size > 1 && n%4 == 0 && g.quiet(&next) {
			g.fail(g.failed(classLost, "lost rank %d: its process has been silent for %v", next.rank, g.cfg.Silence))
			return
		}
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// neighbour is the rank whose signs of life this one watches.
type neighbour struct {
	rank   int
	seen   string
	missed time.Duration // in beats of our own: a pause of this process is not its silence
}

// quiet says whether the neighbour has been silent for too long; it is called
// at every fourth beat.
func (g *group) quiet(n *neighbour) bool {
	v, err := g.board.peek(g.ctx, of("beat", n.rank))
	if err != nil {
		g.silence(err)
		return false
	}
	if string(v) != n.seen || v == nil {
		n.seen, n.missed = string(v), 0
		return false
	}
	n.missed += 4 * beatEvery
	if n.missed < g.cfg.Silence {
		return false
	}
	left, err := g.board.peek(g.ctx, of("left", n.rank))
	return err == nil && left == nil
}

// sweep deletes op keys.
func (g *group) sweep() {
	g.reaping.Lock()
	old := g.garbage
	g.garbage = nil
	g.reaping.Unlock()
	for _, seq := range old {
		if _, err := g.board.store.Delete(g.ctx, "op/"+strconv.FormatUint(seq, 10)); err != nil {
			g.silence(err)
			return
		}
	}
}
