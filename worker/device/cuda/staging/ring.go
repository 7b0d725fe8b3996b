// Package staging is the policy of a ring of pinned host memory through which
// uploads go: the caller's bytes are copied into the ring and are free again at
// once, while the device fetches them in its own time.
//
// It is plain Go and knows no CUDA.
//
// Users: worker/device/cuda.
//
// Non-goals: the pinned memory and the copies themselves.
package staging

import "fmt"

// Marks are the device's events, as far as the ring needs them. Each mark is
// waited for exactly once and then forgotten.
type Marks[E any] interface {
	// Done says, without waiting, whether the device has passed the mark.
	Done(mark E) (bool, error)
	// Wait waits until it has.
	Wait(mark E) error
	// Forget gives the mark back.
	Forget(mark E) error
}

// align keeps regions apart by what the device fetches at once.
const align = 256

// Ring hands out regions of a buffer in turn.
type Ring[E any] struct {
	buf      []byte
	marks    Marks[E]
	head     int // where the oldest region in use begins, counted without end
	tail     int // where the next one does
	reserved int // end of the region handed out last, 0: none
	inFlight []region[E]
}

// region is memory that the device has not passed yet.
type region[E any] struct {
	end  int
	mark E
}

// New makes a ring of buf.
func New[E any](buf []byte, marks Marks[E]) *Ring[E] { return &Ring[E]{buf: buf, marks: marks} }

// Most is the largest region: a quarter of the ring, so that the host fills one
// while the device fetches others.
func (r *Ring[E]) Most() int { return len(r.buf) / 4 / align * align }

// Reserve returns n bytes to fill, at most Most, waiting for the device where
// the ring is full. Commit must follow before the next Reserve.
func (r *Ring[E]) Reserve(n int) ([]byte, error) {
	if n < 1 || n > r.Most() {
		return nil, fmt.Errorf("staging: %d bytes of a ring that gives up to %d", n, r.Most())
	}
	at := (r.tail + align - 1) / align * align
	if size := len(r.buf); at%size+n > size { // it would reach over the end
		at += size - at%size
	}
	for len(r.inFlight) > 0 {
		must := at+n-r.head > len(r.buf)
		done, err := true, error(nil)
		if must {
			err = r.marks.Wait(r.inFlight[0].mark)
		} else {
			done, err = r.marks.Done(r.inFlight[0].mark)
		}
		if err != nil {
			return nil, err
		}
		if !done {
			break
		}
		if err := r.pop(); err != nil {
			return nil, err
		}
	}
	if len(r.inFlight) == 0 {
		r.head = at
	}
	r.reserved = at + n
	return r.buf[at%len(r.buf):][:n:n], nil
}

// pop takes the oldest region back.
func (r *Ring[E]) pop() error {
	oldest := r.inFlight[0]
	r.head = oldest.end
	copy(r.inFlight, r.inFlight[1:])
	r.inFlight = r.inFlight[:len(r.inFlight)-1]
	return r.marks.Forget(oldest.mark)
}

// Commit says that the device fetches the region handed out last before it
// passes the mark.
func (r *Ring[E]) Commit(mark E) {
	r.tail = r.reserved
	r.inFlight = append(r.inFlight, region[E]{r.tail, mark})
}

// Drain waits for all regions.
func (r *Ring[E]) Drain() error {
	for len(r.inFlight) > 0 {
		if err := r.marks.Wait(r.inFlight[0].mark); err != nil {
			return err
		}
		if err := r.pop(); err != nil {
			return err
		}
	}
	return nil
}
