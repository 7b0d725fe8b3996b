package ncclgroup

import "time"

// Device is what a group needs of a CUDA device. Streams, events and device
// addresses are CUDA's handles. The methods may be called from any goroutine
// at the same time, and make the device's context current on the OS thread
// they run on.
type Device interface {
	// Bind makes the device's context current on the calling OS thread, which
	// the caller has locked.
	Bind() error
	// ComputeStream is the stream of the engine's work.
	ComputeStream() uintptr
	// NewStream makes a stream that does not synchronise with the default one.
	NewStream() (uintptr, error)
	FreeStream(stream uintptr) error

	// NewEvent makes an event; only timed ones serve EventElapsed.
	NewEvent(timed bool) (uintptr, error)
	FreeEvent(event uintptr) error
	// RecordEvent puts the event behind what the stream holds now.
	RecordEvent(event, stream uintptr) error
	// StreamWaitEvent has what is put into the stream later wait for the
	// event's last record.
	StreamWaitEvent(stream, event uintptr) error
	// EventDone says, without waiting, whether what was before the event's
	// last record is done. An error is that of the work, or of the device.
	EventDone(event uintptr) (bool, error)
	// EventElapsed is the time between two timed events that are done.
	EventElapsed(start, end uintptr) (time.Duration, error)

	// Alloc allocates device memory, outside of any cache.
	Alloc(bytes int) (uintptr, error)
	Free(addr uintptr) error
	// AllocHost allocates pinned host memory.
	AllocHost(bytes int) ([]byte, error)
	FreeHost(mem []byte) error
	// CopyToDevice and CopyToHost enqueue a copy on the stream; the host side
	// is pinned memory of AllocHost.
	CopyToDevice(dst uintptr, src []byte, stream uintptr) error
	CopyToHost(dst []byte, src uintptr, stream uintptr) error
}
