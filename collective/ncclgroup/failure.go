package ncclgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// class says what broke a group; the texts are part of the store's format.
type class string

const (
	classClosed   class = "closed"   // a rank left in good order, too early
	classAborted  class = "aborted"  // Abort, or a failure of its own
	classLost     class = "lost"     // a peer's process, or the way to it
	classMismatch class = "mismatch" // ranks disagree
	classTimeout  class = "timeout"
)

func (c class) sentinel() error {
	switch c {
	case classMismatch:
		return collective.ErrMismatch
	case classTimeout:
		return collective.ErrTimeout
	}
	return collective.ErrPeerLost
}

// failure is what broke the group. Text names ranks and operations and reads
// the same on every rank; it travels through the store as JSON.
type failure struct {
	Class  class  `json:"class"`
	Source int    `json:"source"` // the rank that found it
	Text   string `json:"text"`
	cause  error  // of this rank's own making: Abort's argument, a failed call
	told   bool   // by another rank
}

func (f *failure) Error() string { return f.Text }

// explain makes the error of one Work out of the group's failure.
func (f *failure) explain(where string) error {
	if f.cause != nil {
		return fmt.Errorf("%s: %w", where, f.cause)
	}
	told := ""
	if f.told && !strings.HasPrefix(f.Text, fmt.Sprintf("rank %d ", f.Source)) {
		told = fmt.Sprintf(" (reported by rank %d)", f.Source)
	}
	err := fmt.Errorf("%s: %w: %s%s", where, f.Class.sentinel(), f.Text, told)
	if f.Class == classTimeout {
		return exitcode.With(err, exitcode.Hang)
	}
	return err
}

// later is the error of an operation that was enqueued after the failure.
func (f *failure) later(where string) error {
	if f.cause != nil && f.Class == classAborted {
		return fmt.Errorf("%s: %w: %w", where, collective.ErrClosed, f.cause)
	}
	return f.explain(where)
}

// ownFailure is a failure of this rank's own making.
func (g *group) ownFailure(cause error) *failure {
	return &failure{Class: classAborted, Source: g.cfg.Rank, cause: cause, Text: fmt.Sprintf("rank %d aborted: %v", g.cfg.Rank, cause)}
}

func (g *group) failed(c class, format string, args ...any) *failure {
	return &failure{Class: c, Source: g.cfg.Rank, Text: fmt.Sprintf(format, args...)}
}

// fail breaks the group: the other ranks are told, what runs on the device is
// stopped, and all work fails. Only the first failure counts; every call
// returns when the group is down. A group whose work is all done, in Close, is
// only hurried.
func (g *group) fail(f *failure) {
	g.mu.Lock()
	first, finished := g.broken == nil, g.finished
	if first && !finished {
		g.broken = f
	}
	comm := g.comm
	g.mu.Unlock()
	switch {
	case finished:
		g.cancel(f)
		return
	case !first:
		<-g.down
		return
	}
	defer close(g.down)
	g.cancel(f)
	if !f.told {
		g.board.publish(f)
	}
	if comm != nil {
		g.abort(comm)
	}
	g.failWork(f)
	g.signal()
}

// abort stops what runs on the device. It must come after the other ranks were
// told: they see their connections go, and look for the reason.
func (g *group) abort(comm communicator) {
	ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
	defer cancel()
	if err := comm.Abort(ctx); err != nil {
		g.stuck.Store(true)
		g.warn("the communicator could not be aborted within %v: %v", abortLimit, err)
	}
}

// failWork ends all work that is not done.
func (g *group) failWork(f *failure) {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	g.mu.Lock()
	pending := append(g.running, g.queue...)
	g.running, g.queue = nil, nil
	g.mu.Unlock()
	for _, w := range pending {
		w.end(f.explain(g.where(w.spec)), 0)
	}
}

// Abort implements collective.Group. When it returns, the peers have been told
// and all work has ended.
func (g *group) Abort(cause error) {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	f := g.ownFailure(cause)
	f.cause = fmt.Errorf("aborted: %w", cause)
	g.fail(f)
	<-g.ended
}

func (g *group) warn(format string, args ...any) {
	g.cfg.Warn(fmt.Sprintf("group %q, rank %d: %s", g.cfg.Name, g.cfg.Rank, fmt.Sprintf(format, args...)))
}

// Limits of what is done when a group breaks or closes.
const (
	publishLimit  = time.Second
	abortLimit    = 5 * time.Second
	finalizeLimit = 10 * time.Second
	drainLimit    = 2 * time.Second
)
