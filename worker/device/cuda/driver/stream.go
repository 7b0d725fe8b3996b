//go:build cuda

package driver

// #include "driver.h"
import "C"

import (
	"errors"
	"time"

	"gorgonia.org/cu"
)

// Stream and Event are CUDA's handles.
type (
	Stream uintptr
	Event  uintptr
)

func (c *Context) c() C.uintptr_t { return C.uintptr_t(c.handle) }

// NewStream makes a stream that does not synchronise with the default one.
func (c *Context) NewStream() (h Stream, err error) {
	err = c.on("cuStreamCreate", func() error {
		s, err := cu.MakeStream(cu.NonBlocking)
		h = Stream(handleOf(&s))
		return err
	})
	return h, err
}

// FreeStream ends a stream once its work is done.
func (c *Context) FreeStream(h Stream) error {
	s := wrapped[cu.Stream](uintptr(h))
	return c.on("cuStreamDestroy", s.Destroy)
}

// Wait waits until the stream's work is done and returns its error.
func (c *Context) Wait(s Stream) error {
	return check("cuStreamSynchronize", C.ddp_stream_wait(c.c(), C.uintptr_t(s)))
}

// NewEvent makes an event; only timed ones serve Elapsed.
func (c *Context) NewEvent(timed bool) (h Event, err error) {
	flags := cu.DisableTiming
	if timed {
		flags = cu.DefaultEvent
	}
	err = c.on("cuEventCreate", func() error {
		e, err := cu.MakeEvent(flags)
		h = Event(handleOf(&e))
		return err
	})
	return h, err
}

// FreeEvent ends an event.
func (c *Context) FreeEvent(h Event) error {
	e := wrapped[cu.Event](uintptr(h))
	return c.on("cuEventDestroy", func() error { return cu.DestroyEvent(&e) })
}

// Record puts the event behind what the stream holds now.
func (c *Context) Record(e Event, s Stream) error {
	return check("cuEventRecord", C.ddp_event_record(c.c(), C.uintptr_t(e), C.uintptr_t(s)))
}

// StreamWait has what is put into the stream later wait for the event's last
// record.
func (c *Context) StreamWait(s Stream, e Event) error {
	return check("cuStreamWaitEvent", C.ddp_stream_wait_event(c.c(), C.uintptr_t(s), C.uintptr_t(e)))
}

// Done says, without waiting, whether what was before the event's last record
// is done.
func (c *Context) Done(e Event) (bool, error) {
	err := check("cuEventQuery", C.ddp_event_query(c.c(), C.uintptr_t(e)))
	if errors.Is(err, NotReady) {
		return false, nil
	}
	return err == nil, err
}

// WaitEvent waits until it is.
func (c *Context) WaitEvent(e Event) error {
	return check("cuEventSynchronize", C.ddp_event_wait(c.c(), C.uintptr_t(e)))
}

// Elapsed is the time between two timed events that are done.
func (c *Context) Elapsed(start, end Event) (d time.Duration, err error) {
	err = c.on("cuEventElapsedTime", func() error {
		ms, err := wrapped[cu.Event](uintptr(start)).Elapsed(wrapped[cu.Event](uintptr(end)))
		d = time.Duration(ms * float64(time.Millisecond))
		return err
	})
	return d, err
}
