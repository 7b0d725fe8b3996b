package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// ReadFloat32 returns a tensor of type F32, F16, BF16 or F64 as float32
// numbers, row-major. F64 numbers are rounded to the nearest, beyond float32's
// range to infinity; the other types lose nothing.
func (f *File) ReadFloat32(name string) ([]float32, error) {
	e, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	if e.info.DType == "F32" {
		values := make([]float32, e.info.Bytes/4)
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*4)
		if err := f.readInto(raw, e); err != nil {
			return nil, err
		}
		if !littleEndian() {
			decode(values, raw, 4, float32At)
		}
		return values, nil
	}
	raw, err := f.Read(name)
	if err != nil {
		return nil, err
	}
	switch e.info.DType {
	case "F16":
		return decode(make([]float32, len(raw)/2), raw, 2, float16At), nil
	case "BF16":
		return decode(make([]float32, len(raw)/2), raw, 2, bfloat16At), nil
	case "F64":
		return decode(make([]float32, len(raw)/8), raw, 8, float64At), nil
	}
	return nil, refuse(f.path, fmt.Errorf("tensor %q is %s, not a float type that converts to float32 (F32, F16, BF16, F64)", name, e.info.DType))
}

// Float32Bytes is the memory of values as Tensor.Data takes it: a view, not a
// copy, on a little-endian machine.
func Float32Bytes(values []float32) []byte {
	if littleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*4)
	}
	raw := make([]byte, 0, len(values)*4)
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// littleEndian reports the byte order of this machine's memory.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// decode converts raw, size bytes an element, into values.
func decode(values []float32, raw []byte, size int, at func([]byte) float32) []float32 {
	for i := range values {
		values[i] = at(raw[i*size : (i+1)*size])
	}
	return values
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func float64At(b []byte) float32 {
	return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
}

func bfloat16At(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

// float16At widens an IEEE 754 half: 1 sign, 5 exponent (bias 15), 10 fraction.
func float16At(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	sign, exponent, fraction := h>>15<<31, h>>10&0x1f, h&0x3ff
	switch exponent {
	case 0: // zero and subnormals: fraction * 2^-24, exact in float32
		return math.Float32frombits(math.Float32bits(float32(fraction)*0x1p-24) | sign)
	case 0x1f: // infinity and NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
