//go:build cuda

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ddprun/ddprun/worker/device/cuda/driver"
)

// faultBytes is an int4 that kernels write when they meet a number out of
// range: tag of the launch, row, the number, and 1.
const faultBytes = 16

// faults turns what kernels report into errors. Kernels run long after their
// launch, so a launch leaves behind what its tag stands for.
type faults struct {
	word *[4]int32 // host memory that the device writes
	addr uintptr   // the same for the device
	tag  int32
	made [1024]fault
}

// fault is what a launch would be refused for.
type fault struct {
	tag   int32
	kind  refusal
	name  string // of the tensor that holds the number
	other string // of the table that it is an index of
	limit int
}

func newFaults(p driver.Pinned) faults {
	f := faults{word: (*[4]int32)(unsafe.Pointer(unsafe.SliceData(p.Bytes))), addr: p.Addr}
	*f.word = [4]int32{}
	return f
}

// refusal is a kind of number out of range.
type refusal uint8

const (
	badTarget refusal = iota
	badIndex          // of Embedding
	badRow            // of EmbeddingGrad
	badPlace          // of PoolGrad
)

// error has the words of the CPU device.
func (f fault) error(row, number int) error {
	switch f.kind {
	case badTarget:
		return fmt.Errorf("cross-entropy: target %d in row %d of %s is outside the %d classes", number, row, f.name, f.limit)
	case badIndex:
		return fmt.Errorf("embedding: index %d in row %d of %s is outside the %d rows of %s", number, row, f.name, f.limit, f.other)
	case badRow:
		return fmt.Errorf("embedding gradient: index %d in row %d of %s is outside the %d rows of %s", number, row, f.name, f.limit, f.other)
	}
	return fmt.Errorf("pool gradient: Index %s has %d at element %d, outside the %d elements of a plane", f.name, number, row, f.limit)
}

// next is the tag of a launch that may be refused.
func (f *faults) next(kind refusal, t, other T, limit int) int {
	f.tag++
	if f.tag <= 0 {
		f.tag = 1
	}
	m := &f.made[int(f.tag)%len(f.made)]
	*m = fault{tag: f.tag, kind: kind, name: t.Name, limit: limit}
	if other != nil {
		m.other = other.Name
	}
	return int(f.tag)
}

// take is the error that kernels have reported since the last take. The device
// must be at rest.
func (f *faults) take() error {
	if f.word[3] == 0 {
		return nil
	}
	tag, row, number := f.word[0], f.word[1], f.word[2]
	*f.word = [4]int32{}
	m := f.made[int(uint32(tag))%len(f.made)]
	if m.tag != tag {
		return fmt.Errorf("an operator met the number %d in row %d, which is out of range (it is too long ago to say which)", number, row)
	}
	return m.error(int(row), int(number))
}
