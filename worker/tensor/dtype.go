package tensor

import "fmt"

// DType is the type of a tensor's elements.
type DType uint8

// Element types.
const (
	Float32 DType = iota + 1
	Int32
)

// Size is the size of one element in bytes.
func (d DType) Size() int { return 4 }

func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Int32:
		return "int32"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Kind is a kind of device memory.
type Kind uint8

// Kinds of memory.
const (
	CPU Kind = iota + 1
	CUDA
)

func (k Kind) String() string {
	switch k {
	case CPU:
		return "cpu"
	case CUDA:
		return "cuda"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Place is one device's memory, written "cpu" or "cuda:1".
type Place struct {
	Kind  Kind
	Index int
}

func (p Place) String() string {
	if p.Kind == CPU {
		return p.Kind.String()
	}
	return fmt.Sprintf("%s:%d", p.Kind, p.Index)
}
