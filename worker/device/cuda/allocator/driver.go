package allocator

import "errors"

// Stream is a handle of a queue of device work.
type Stream uintptr

// Event is a handle of a mark in a stream.
type Event uintptr

// ErrNoMemory is what a driver's Alloc returns, wrapped or not, when the device
// has no memory of that size. Any other error is passed to the caller as it is.
var ErrNoMemory = errors.New("the device has no memory of that size")

// Driver is what the allocator needs of the device. Calls come under the
// allocator's lock, from any goroutine that allocates or frees.
type Driver interface {
	// Alloc takes a segment of the given size in bytes from the device.
	Alloc(bytes int) (addr uintptr, err error)
	// Free gives a segment back.
	Free(addr uintptr) error
	// MemInfo is the free and the total memory of the device, in bytes.
	MemInfo() (free, total int, err error)
	// Synchronize waits for all work of the device.
	Synchronize() error

	// Record puts a mark behind the work that the stream holds now.
	Record(s Stream) (Event, error)
	// Done says, without waiting, whether the work before the mark is done.
	Done(e Event) (bool, error)
	// Wait waits until it is.
	Wait(e Event) error
	// Release gives an event back.
	Release(e Event) error
}
