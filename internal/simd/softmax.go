package simd

import "math"

// SoftmaxRow sets dst = exp(x - max) / Σ exp(x - max) and returns the greatest
// element of x and log Σ exp(x). Elements of -Inf become 0. A NaN, a +Inf or
// nothing but -Inf in x makes dst and logSumExp NaN, as in PyTorch. For an
// empty row both results are -Inf.
func SoftmaxRow(dst, x []float32) (largest, logSumExp float32) {
	n := min(len(dst), len(x))
	if n == 0 {
		return negInf, negInf
	}
	dst, x = dst[:n], x[:n]
	largest = maximum(x)
	var total float64
	for from := 0; from < n; from += block {
		to := min(n, from+block)
		total += float64(expSum(dst[from:to], x[from:to], largest))
	}
	scaleTo(dst, dst, float32(1/total))
	return largest, float32(float64(largest) + math.Log(total))
}

// SoftmaxBackwardRow sets dx = scale * y * (dy - Σ dy·y), where y is the
// output of SoftmaxRow. scale is the factor that stood before the softmax (1
// without one): in attention 1/√d.
func SoftmaxBackwardRow(dx, dy, y []float32, scale float32) {
	n := min(len(dx), len(dy), len(y))
	dx, dy, y = dx[:n], dy[:n], y[:n]
	softmaxBackward(dx, dy, y, Dot(dy, y), scale)
}
