package cpu

import (
	"context"
	"time"

	"github.com/ddprun/ddprun/collective"
)

// operation is one collective of this rank and its Work.
type operation struct {
	spec
	dst, src []byte // the same memory for all-reduce and broadcast
	invalid  error  // refused when its turn comes, so that earlier work still ends well
	work
}

// work implements collective.Work.
type work struct {
	done    chan struct{}
	err     error
	elapsed time.Duration
}

var _ collective.Work = (*work)(nil)

func (w *work) finish(err error, elapsed time.Duration) {
	w.err, w.elapsed = err, elapsed
	close(w.done)
}

func (w *work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *work) Done() <-chan struct{} { return w.done }

func (w *work) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

func (w *work) Elapsed() time.Duration {
	select {
	case <-w.done:
		return w.elapsed
	default:
		return 0
	}
}
