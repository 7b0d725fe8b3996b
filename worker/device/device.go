package device

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/tensor"
)

// Device is one processor with its memory. It is used by one goroutine at a
// time.
type Device interface {
	Memory
	Ops
	// Place is where the device's tensors lie.
	Place() tensor.Place
	// Describe is a line for the start banner: what computes, with which
	// library, and how to get a faster one.
	Describe() string
	// Close frees everything; no tensor may be used after.
	Close() error
}

// Memory hands out tensors and moves their contents.
type Memory interface {
	// Alloc returns a tensor with unspecified contents. Release gives the
	// memory back to the device for reuse.
	Alloc(name string, dtype tensor.DType, shape ...int) (*tensor.Tensor, error)
	// Upload copies host bytes into t; len(src) must be t.Bytes(). src may be
	// reused after the call.
	Upload(t *tensor.Tensor, src []byte) error
	// Download waits for work on t and copies it into dst, len(dst) ==
	// t.Bytes().
	Download(dst []byte, t *tensor.Tensor) error
	// Zero sets all elements to zero.
	Zero(t *tensor.Tensor) error
	// Copy copies src into dst of the same type and number of elements.
	Copy(dst, src *tensor.Tensor) error
	// Synchronize waits until all enqueued work is done and returns its error.
	Synchronize() error
	// Stats tells the use of memory.
	Stats() MemoryStats
}

// MemoryStats are sizes in bytes.
type MemoryStats struct {
	Allocated     int // held by live tensors
	PeakAllocated int // the most that was held at once
	Reserved      int // taken from the system, live or kept for reuse
	PeakReserved  int
}

// SamePlace checks the operands of op: an operand in other memory than the
// device's is an error that names the tensor, its place and the operator. Nil
// operands are skipped.
func SamePlace(d Device, op string, operands ...*tensor.Tensor) error {
	for _, t := range operands {
		if t != nil && t.Place() != d.Place() {
			return fmt.Errorf("%s: tensor %s is on %s, the operator runs on %s", op, t.Name, t.Place(), d.Place())
		}
	}
	return nil
}
