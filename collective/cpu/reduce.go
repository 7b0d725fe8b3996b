package cpu

import (
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/simd"
)

// reducer combines src into dst element by element: dst = dst op src. Both have
// the same length, a multiple of the element size.
type reducer func(dst, src []byte)

// reducerOf returns the loop for a type and an operation, nil when there is
// none. Integers wrap around; a NaN on any rank makes the minimum and maximum
// NaN, so that a diverged rank cannot hide.
func reducerOf(d collective.DType, op collective.ReduceOp) reducer {
	switch d {
	case collective.Float32:
		return float32Reducer(op)
	case collective.Float64:
		return reducerFor[float64](op)
	case collective.Int32:
		return reducerFor[int32](op)
	case collective.Int64:
		return reducerFor[int64](op)
	case collective.Uint8:
		return reducerFor[uint8](op)
	}
	return nil
}

// float32Reducer has the vector loops: it is nearly all that training does.
func float32Reducer(op collective.ReduceOp) reducer {
	switch op {
	case collective.Sum:
		return func(dst, src []byte) { simd.AddTo(elements[float32](dst), elements[float32](src)) }
	case collective.Min:
		return func(dst, src []byte) { simd.MinTo(elements[float32](dst), elements[float32](src)) }
	case collective.Max:
		return func(dst, src []byte) { simd.MaxTo(elements[float32](dst), elements[float32](src)) }
	case collective.Product:
		return func(dst, src []byte) { simd.MulTo(elements[float32](dst), elements[float32](src)) }
	}
	return nil
}

func reducerFor[T collective.Element](op collective.ReduceOp) reducer {
	switch op {
	case collective.Sum:
		return sum[T]
	case collective.Min:
		return minimum[T]
	case collective.Max:
		return maximum[T]
	case collective.Product:
		return product[T]
	}
	return nil
}

// elements views bytes as elements. Chunks start at whole elements of the
// caller's buffer, so they are aligned as it is.
func elements[T collective.Element](b []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(z)))
}

// sum does eight independent additions a turn, to keep the adder busy.
func sum[T collective.Element](dst, src []byte) {
	d, s := elements[T](dst), elements[T](src)
	s = s[:len(d)]
	for len(d) >= 8 && len(s) >= 8 {
		x, y := (*[8]T)(d), (*[8]T)(s)
		x[0] += y[0]
		x[1] += y[1]
		x[2] += y[2]
		x[3] += y[3]
		x[4] += y[4]
		x[5] += y[5]
		x[6] += y[6]
		x[7] += y[7]
		d, s = d[8:], s[8:]
	}
	for i := range d {
		d[i] += s[i]
	}
}

func minimum[T collective.Element](dst, src []byte) {
	d, s := elements[T](dst), elements[T](src)
	s = s[:len(d)]
	for i := range d {
		d[i] = min(d[i], s[i])
	}
}

func maximum[T collective.Element](dst, src []byte) {
	d, s := elements[T](dst), elements[T](src)
	s = s[:len(d)]
	for i := range d {
		d[i] = max(d[i], s[i])
	}
}

func product[T collective.Element](dst, src []byte) {
	d, s := elements[T](dst), elements[T](src)
	s = s[:len(d)]
	for i := range d {
		d[i] *= s[i]
	}
}
