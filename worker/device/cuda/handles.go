//go:build cuda

package cuda

import (
	"time"

	"github.com/ddprun/ddprun/worker/device/cuda/driver"
)

// Handles is the GPU as bare CUDA handles, for libraries that put work on it
// beside the operators: collective/ncclgroup takes it as its Device. The
// methods may be called from any goroutine, and make the GPU's context current
// on the OS thread they run on.
type Handles struct {
	ctx     *driver.Context
	compute driver.Stream
}

// Handles of this device; they are good until Close.
func (d *Device) Handles() *Handles { return &Handles{d.ctx, d.compute} }

// Bind makes the context current on the calling OS thread, which the caller
// has locked.
func (h *Handles) Bind() error { return h.ctx.Bind() }

// ComputeStream is the stream of the operators.
func (h *Handles) ComputeStream() uintptr { return uintptr(h.compute) }

// NewStream makes a stream that does not synchronise with the default one.
func (h *Handles) NewStream() (uintptr, error) {
	s, err := h.ctx.NewStream()
	return uintptr(s), err
}

// FreeStream ends a stream once its work is done.
func (h *Handles) FreeStream(stream uintptr) error { return h.ctx.FreeStream(driver.Stream(stream)) }

// NewEvent makes an event; only timed ones serve EventElapsed.
func (h *Handles) NewEvent(timed bool) (uintptr, error) {
	e, err := h.ctx.NewEvent(timed)
	return uintptr(e), err
}

// FreeEvent ends an event.
func (h *Handles) FreeEvent(event uintptr) error { return h.ctx.FreeEvent(driver.Event(event)) }

// RecordEvent puts the event behind what the stream holds now.
func (h *Handles) RecordEvent(event, stream uintptr) error {
	return h.ctx.Record(driver.Event(event), driver.Stream(stream))
}

// StreamWaitEvent has what is put into the stream later wait for the event's
// last record.
func (h *Handles) StreamWaitEvent(stream, event uintptr) error {
	return h.ctx.StreamWait(driver.Stream(stream), driver.Event(event))
}

// EventDone says, without waiting, whether what was before the event's last
// record is done. An error is that of the work, or of the device.
func (h *Handles) EventDone(event uintptr) (bool, error) { return h.ctx.Done(driver.Event(event)) }

// EventElapsed is the time between two timed events that are done.
func (h *Handles) EventElapsed(start, end uintptr) (time.Duration, error) {
	return h.ctx.Elapsed(driver.Event(start), driver.Event(end))
}

// Alloc allocates device memory, outside of the cache.
func (h *Handles) Alloc(bytes int) (uintptr, error) { return h.ctx.Alloc(bytes) }

// Free gives memory of Alloc back.
func (h *Handles) Free(addr uintptr) error { return h.ctx.Free(addr) }

// AllocHost allocates pinned host memory.
func (h *Handles) AllocHost(bytes int) ([]byte, error) {
	p, err := h.ctx.AllocHost(bytes)
	return p.Bytes, err
}

// FreeHost gives memory of AllocHost back.
func (h *Handles) FreeHost(mem []byte) error { return h.ctx.FreeHost(mem) }

// CopyToDevice enqueues a copy on the stream; src is memory of AllocHost.
func (h *Handles) CopyToDevice(dst uintptr, src []byte, stream uintptr) error {
	return h.ctx.CopyToDevice(dst, src, driver.Stream(stream))
}

// CopyToHost enqueues a copy on the stream; dst is memory of AllocHost.
func (h *Handles) CopyToHost(dst []byte, src uintptr, stream uintptr) error {
	return h.ctx.CopyToHost(dst, src, driver.Stream(stream))
}
