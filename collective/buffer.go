package collective

import (
	"fmt"
	"unsafe"
)

// DType is the element type of a buffer.
type DType uint8

// Element types. The numbers are part of the wire format.
const (
	Float32 DType = iota + 1
	Float64
	Int32
	Int64
	Uint8
)

// Size is the size of one element in bytes.
func (d DType) Size() int {
	switch d {
	case Float32, Int32:
		return 4
	case Float64, Int64:
		return 8
	case Uint8:
		return 1
	}
	return 0
}

func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case Uint8:
		return "uint8"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// ReduceOp says how elements of different ranks are combined.
type ReduceOp uint8

// Reductions. The numbers are part of the wire format.
const (
	Sum ReduceOp = iota + 1
	Min
	Max
	Product
)

func (op ReduceOp) String() string {
	switch op {
	case Sum:
		return "sum"
	case Min:
		return "min"
	case Max:
		return "max"
	case Product:
		return "product"
	}
	return fmt.Sprintf("reduceop(%d)", uint8(op))
}

// Place says where a buffer's memory lies; a backend refuses places it cannot
// reach.
type Place uint8

// Places.
const (
	Host Place = iota + 1
	CUDA
)

func (p Place) String() string {
	switch p {
	case Host:
		return "host"
	case CUDA:
		return "cuda"
	}
	return fmt.Sprintf("place(%d)", uint8(p))
}

// Buffer is a contiguous run of Count elements. It does not own the memory.
type Buffer struct {
	Ptr   unsafe.Pointer
	Count int
	DType DType
	Place Place
}

// Element is a Go type that has a DType.
type Element interface {
	float32 | float64 | int32 | int64 | uint8
}

// HostBuffer describes the memory of a slice. The slice must stay alive and
// unchanged in length while the buffer is in use.
func HostBuffer[T Element](s []T) Buffer {
	return Buffer{Ptr: unsafe.Pointer(unsafe.SliceData(s)), Count: len(s), DType: dtypeOf[T](), Place: Host}
}

func dtypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int32:
		return Int32
	case int64:
		return Int64
	}
	return Uint8
}

// Bytes is the size of the buffer in bytes.
func (b Buffer) Bytes() int { return b.Count * b.DType.Size() }
