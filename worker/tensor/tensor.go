package tensor

import (
	"fmt"
	"slices"
	"unsafe"
)

// Tensor is a row-major block of elements in a storage. It holds one reference
// to the storage until Release.
type Tensor struct {
	Name    string // for messages: a parameter's name, or the operator that made it
	shape   []int
	count   int
	dtype   DType
	storage *Storage
	offset  int // in elements
}

// New puts a tensor of the given shape at offset (in elements) of s and takes
// a reference to s.
func New(name string, dtype DType, s *Storage, offset int, shape ...int) (*Tensor, error) {
	n := Count(shape)
	if n < 0 || offset < 0 || (offset+n)*dtype.Size() > s.bytes {
		return nil, fmt.Errorf("tensor %s: shape %v at element %d does not fit in %d bytes", name, shape, offset, s.bytes)
	}
	s.retain()
	return &Tensor{Name: name, shape: slices.Clone(shape), count: n, dtype: dtype, storage: s, offset: offset}, nil
}

// Count is the number of elements of a shape, -1 if a dimension is negative or
// the product overflows.
func Count(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > (1<<62)/d) {
			return -1
		}
		n *= d
	}
	return n
}

// Shape is the tensor's shape; the caller must not change it.
func (t *Tensor) Shape() []int { return t.shape }

// Dim is dimension i; negative i counts from the end.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.shape)
	}
	return t.shape[i]
}

// Len is the number of elements.
func (t *Tensor) Len() int { return t.count }

// Rows is the number of elements divided by the last dimension.
func (t *Tensor) Rows() int {
	if t.count == 0 {
		return 0
	}
	return t.count / t.Dim(-1)
}

// DType is the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Place is where the memory lies.
func (t *Tensor) Place() Place { return t.storage.place }

// Bytes is the size of the tensor's elements.
func (t *Tensor) Bytes() int { return t.count * t.dtype.Size() }

// Addr is the address of the first element: in host or in device memory.
func (t *Tensor) Addr() uintptr {
	if t.storage.host != nil {
		return uintptr(t.Pointer())
	}
	return t.storage.addr + uintptr(t.offset*t.dtype.Size())
}

// Pointer is the first element in host memory; nil elsewhere.
func (t *Tensor) Pointer() unsafe.Pointer {
	if t.storage.host == nil || t.count == 0 {
		return nil
	}
	return unsafe.Pointer(&t.storage.host[t.offset])
}

// Float32s is the tensor's memory, for host tensors of type float32; nil
// otherwise.
func (t *Tensor) Float32s() []float32 {
	if t.storage.host == nil || t.dtype != Float32 {
		return nil
	}
	return t.storage.host[t.offset : t.offset+t.count : t.offset+t.count]
}

// Int32s is the tensor's memory, for host tensors of type int32; nil
// otherwise.
func (t *Tensor) Int32s() []int32 {
	if t.storage.host == nil || t.dtype != Int32 {
		return nil
	}
	if t.count == 0 {
		return []int32{}
	}
	return unsafe.Slice((*int32)(t.Pointer()), t.count)
}

// View is another shape over the same elements, with its own reference.
func (t *Tensor) View(shape ...int) (*Tensor, error) {
	if Count(shape) != t.count {
		return nil, fmt.Errorf("tensor %s: shape %v has %d elements, not %d as %v has", t.Name, shape, Count(shape), t.count, t.shape)
	}
	return New(t.Name, t.dtype, t.storage, t.offset, shape...)
}

// Slice is the tensor of the given shape that begins at element from of t,
// with its own reference.
func (t *Tensor) Slice(from int, shape ...int) (*Tensor, error) {
	if n := Count(shape); from < 0 || n < 0 || from+n > t.count {
		return nil, fmt.Errorf("tensor %s: %v from element %d is outside its %d elements", t.Name, shape, from, t.count)
	}
	return New(t.Name, t.dtype, t.storage, t.offset+from, shape...)
}

// Retain takes one more reference and returns a tensor that holds it.
func (t *Tensor) Retain() *Tensor {
	t.storage.retain()
	c := *t
	return &c
}

// Release gives up the tensor's reference; the tensor must not be used after.
func (t *Tensor) Release() {
	s := t.storage
	t.storage = nil
	s.release()
}

// Shared says whether another tensor refers to the same storage.
func (t *Tensor) Shared() bool { return t.storage.refs.Load() > 1 }

func (t *Tensor) String() string {
	return fmt.Sprintf("%s %s%v on %s", t.Name, t.dtype, t.shape, t.storage.place)
}
