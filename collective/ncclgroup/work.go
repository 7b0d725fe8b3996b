package ncclgroup

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
)

// work is one collective of this rank. Its events and its slot belong to the
// group's lock "reaping" once it is issued.
type work struct {
	spec
	g       *group
	host    bool
	dst     collective.Buffer
	src     collective.Buffer
	invalid error // refused when its turn comes, so that earlier work still ends well

	ready       uintptr // behind what the compute stream held at the call; 0: none
	first, last uintptr // around the transfer, on the group's stream
	slot        *slot   // staging of host buffers
	asked       bool    // someone waits for done; under reaping

	issued  chan struct{} // closed when the device has all of it
	done    chan struct{}
	err     error
	elapsed time.Duration
}

var _ collective.Work = (*work)(nil)

// Wait implements collective.Work. For device buffers it makes the compute
// stream wait and returns when the operation is enqueued; for host buffers and
// barriers it returns when the operation is done.
func (w *work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	select {
	case <-w.issued:
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.host {
		return w.waitHost(ctx)
	}
	return w.g.order(w)
}

// order has the compute stream wait for the operation.
func (g *group) order(w *work) error {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	select {
	case <-w.done: // its events may serve another operation by now
		return w.err
	default:
		return g.dev.StreamWaitEvent(g.dev.ComputeStream(), w.last)
	}
}

// waitHost polls: small transfers are done within some ten microseconds, less
// than a wake-up by the driver takes.
func (w *work) waitHost(ctx context.Context) error {
	for tries := 0; ; tries++ {
		w.g.reap()
		select {
		case <-w.done:
			return w.err
		default:
		}
		if tries < 50 && ctx.Err() == nil {
			runtime.Gosched()
			continue
		}
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Duration(tries-49)*10*time.Microsecond, time.Millisecond)):
		}
	}
}

// Done implements collective.Work. Whoever asks makes the watchdog look often.
func (w *work) Done() <-chan struct{} {
	w.g.ask(w)
	return w.done
}

// Err implements collective.Work.
func (w *work) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Elapsed implements collective.Work.
func (w *work) Elapsed() time.Duration {
	w.g.reap()
	select {
	case <-w.done:
		return w.elapsed
	default:
		return 0
	}
}

// finish ends an operation whose last event has passed; under reaping.
func (w *work) finish() {
	elapsed, err := w.g.dev.EventElapsed(w.first, w.last)
	if w.slot != nil {
		copy(memory(w.dst), w.slot.result)
		w.g.slots.put(w.slot)
	}
	w.g.events.put(w.ready, w.first, w.last)
	w.end(err, elapsed)
}

// end publishes the outcome; under reaping, or before anyone else has the
// work.
func (w *work) end(err error, elapsed time.Duration) {
	select {
	case <-w.done:
		return
	default:
	}
	if w.asked {
		w.g.asked.Add(-1)
	}
	w.err, w.elapsed = err, elapsed
	close(w.done)
}

// memory is the bytes of a checked host buffer.
func memory(b collective.Buffer) []byte {
	return unsafe.Slice((*byte)(b.Ptr), b.Bytes())
}

// address is where a device buffer lies.
func address(b collective.Buffer) uintptr { return uintptr(b.Ptr) }
