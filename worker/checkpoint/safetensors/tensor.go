package safetensors

import (
	"fmt"
	"math"
	"math/bits"
)

// Tensor is a named array. Data is row-major and little-endian, of exactly
// product(Shape) elements; an empty shape is a single number.
type Tensor struct {
	Name  string
	DType string // F32, F16, BF16, I64, ...: as in the file
	Shape []int
	Data  []byte
}

// Info is what the header says about a tensor.
type Info struct {
	DType string
	Shape []int
	Bytes int64 // size of the data
}

// dtype is an element type; rank orders the data in a written file.
type dtype struct{ bytes, rank int }

// dtypeOf knows the element types of whole bytes. Ranks are the order of the
// reference implementation, which lays out the highest first, so that wide
// elements stay aligned.
func dtypeOf(name string) (dtype, bool) {
	switch name {
	case "BOOL":
		return dtype{1, 0}, true
	case "U8":
		return dtype{1, 1}, true
	case "I8":
		return dtype{1, 2}, true
	case "F8_E5M2":
		return dtype{1, 3}, true
	case "F8_E4M3":
		return dtype{1, 4}, true
	case "F8_E8M0":
		return dtype{1, 5}, true
	case "I16":
		return dtype{2, 6}, true
	case "U16":
		return dtype{2, 7}, true
	case "F16":
		return dtype{2, 8}, true
	case "BF16":
		return dtype{2, 9}, true
	case "I32":
		return dtype{4, 10}, true
	case "U32":
		return dtype{4, 11}, true
	case "F32":
		return dtype{4, 12}, true
	case "C64":
		return dtype{8, 13}, true
	case "F64":
		return dtype{8, 14}, true
	case "I64":
		return dtype{8, 15}, true
	case "U64":
		return dtype{8, 16}, true
	}
	return dtype{}, false
}

// sizeOf is the number of bytes of a tensor, or why there is none.
func sizeOf(dtypeName string, shape []int) (int64, error) {
	d, ok := dtypeOf(dtypeName)
	if !ok {
		return 0, fmt.Errorf("unknown dtype %q", dtypeName)
	}
	size := uint64(d.bytes)
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
		high, low := bits.Mul64(size, uint64(dim))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v of %s overflows 64 bits", shape, dtypeName)
		}
		size = low
	}
	return int64(size), nil
}
