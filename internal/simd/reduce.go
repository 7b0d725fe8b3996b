package simd

import "math"

// block is how many elements are added in float32 before the sum goes into a
// float64: it bounds the rounding error of a long sum.
const block = 4096

// Sum adds x in float64 and rounds once.
func Sum(x []float32) float32 { return float32(sum(x)) }

// SumSquares adds the squares of x in float64. Squares of finite float32
// values cannot overflow there.
func SumSquares(x []float32) float64 { return sumSquares(x) }

// Dot is the sum of a * b: blocks of 4096 products in float32, the blocks in
// float64.
func Dot(a, b []float32) float32 {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	if n <= block {
		return dot(a, b)
	}
	var total float64
	for len(a) > 0 {
		k := min(block, len(a))
		total += float64(dot(a[:k], b[:k]))
		a, b = a[k:], b[k:]
	}
	return float32(total)
}

// Max is the greatest element of x, -Inf for an empty slice. With a NaN in x
// the result is unspecified.
func Max(x []float32) float32 { return maximum(x) }

// HasNonFinite tells whether x has an infinity or a NaN.
func HasNonFinite(x []float32) bool { return hasNonFinite(x) }

// MeanVar is the mean of x and the mean of (x-mean)² (the biased variance
// that normalisation layers use), in two passes. Both are 0 for an empty x.
func MeanVar(x []float32) (mean, variance float32) {
	if len(x) == 0 {
		return 0, 0
	}
	n := float64(len(x))
	mean = float32(sum(x) / n)
	var total float64
	for rest := x; len(rest) > 0; {
		k := min(block, len(rest))
		total += float64(sumSquaredDeviations(rest[:k], mean))
		rest = rest[k:]
	}
	return mean, float32(total / n)
}

// negInf is the sum over nothing in log space.
var negInf = float32(math.Inf(-1))
