package simd

import "math"

// LayerNormRow normalises one row: dst = (x-mean)·rstd·gamma + beta with
// rstd = 1/√(variance + eps). LayerNormBackwardRow needs what it returns.
func LayerNormRow(dst, x, gamma, beta []float32, eps float32) (mean, rstd float32) {
	n := min(len(dst), len(x), len(gamma), len(beta))
	mean, variance := MeanVar(x[:n])
	rstd = float32(1 / math.Sqrt(float64(variance)+float64(eps)))
	normalize(dst[:n], x[:n], gamma[:n], beta[:n], mean, rstd)
	return mean, rstd
}

// Normalize sets dst = (x-mean)·rstd·gamma + beta.
func Normalize(dst, x []float32, mean, rstd float32, gamma, beta []float32) {
	n := min(len(dst), len(x), len(gamma), len(beta))
	normalize(dst[:n], x[:n], gamma[:n], beta[:n], mean, rstd)
}

// LayerNormBackwardRow is the derivative of Normalize, mean and rstd being
// those of x. dgamma and dbeta are added to; dx is added to when accumulate is
// set, overwritten (whatever it held) otherwise.
func LayerNormBackwardRow(dx, dy, x []float32, mean, rstd float32, gamma, dgamma, dbeta []float32, accumulate bool) {
	n := min(len(dx), len(dy), len(x), len(gamma), len(dgamma), len(dbeta))
	if n == 0 {
		return
	}
	dx, dy, x, gamma = dx[:n], dy[:n], x[:n], gamma[:n]
	s1, s2 := normParams(dy, x, gamma, dgamma[:n], dbeta[:n], mean, rstd)
	var keep float32
	if accumulate {
		keep = 1
	}
	normInput(dx, dy, x, gamma, mean, rstd, s1/float32(n), s2/float32(n), keep)
}
