package devicetest

import (
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

// twinMatMul is op(A)*op(B) for row-major A and B.
func twinMatMul(a, b []float64, ta, tb bool, m, n, k int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += at(a, ta, i, l, m, k) * at(b, tb, l, j, k, n)
			}
		}
	}
	return out
}

// at is element (i, j) of an op(X) of rows x cols.
func at(x []float64, trans bool, i, j, rows, cols int) float64 {
	if trans {
		return x[j*rows+i]
	}
	return x[i*cols+j]
}

const geluK = 0.7978845608028654 // sqrt(2/pi)

func twinAct(act device.Activation, x float64) float64 {
	switch act {
	case device.ReLU:
		if x < 0 {
			return 0
		}
		return x
	case device.GELU:
		return 0.5 * x * (1 + math.Erf(x/math.Sqrt2))
	case device.GELUTanh:
		return 0.5 * x * (1 + math.Tanh(geluK*(x+0.044715*x*x*x)))
	}
	return x
}

// twinActGrad is the derivative; at is the output for ReLU, else the input.
func twinActGrad(act device.Activation, at float64) float64 {
	switch act {
	case device.ReLU:
		if at > 0 {
			return 1
		}
		return 0
	case device.GELU:
		return 0.5*(1+math.Erf(at/math.Sqrt2)) + at*math.Exp(-at*at/2)/math.Sqrt(2*math.Pi)
	case device.GELUTanh:
		t := math.Tanh(geluK * (at + 0.044715*at*at*at))
		return 0.5*(1+t) + 0.5*at*(1-t*t)*geluK*(1+3*0.044715*at*at)
	}
	return 1
}

func twinSumRows(x []float64, n int) []float64 {
	out := make([]float64, n)
	for i, v := range x {
		out[i%n] += v
	}
	return out
}

func twinAdd(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

// moments are the mean, and 1/sqrt of the variance (denominator n) plus eps.
func moments(x []float64, eps float64) (mean, rstd float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	var variance float64
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, 1 / math.Sqrt(variance/float64(len(x))+eps)
}

func twinLayerNorm(x, gamma, beta []float64, eps float64) (out, mean, rstd []float64) {
	n := len(gamma)
	out = make([]float64, len(x))
	for r := 0; r < len(x); r += n {
		m, s := moments(x[r:r+n], eps)
		mean, rstd = append(mean, m), append(rstd, s)
		for i := range n {
			out[r+i] = (x[r+i]-m)*s*gamma[i] + beta[i]
		}
	}
	return out, mean, rstd
}

func twinLayerNormGrad(x, dout, gamma []float64, eps float64) (dx, dgamma, dbeta []float64) {
	n := len(gamma)
	dx, dgamma, dbeta = make([]float64, len(x)), make([]float64, n), make([]float64, n)
	for r := 0; r < len(x); r += n {
		row, g := x[r:r+n], make([]float64, n)
		m, s := moments(row, eps)
		for i := range n {
			dgamma[i] += dout[r+i] * (row[i] - m) * s
			dbeta[i] += dout[r+i]
			g[i] = dout[r+i] * gamma[i]
		}
		copy(dx[r:], normGrad(row, g, m, s))
	}
	return dx, dgamma, dbeta
}

// normGrad is the gradient through (x-mean)*rstd for g, the gradient at it.
func normGrad(x, g []float64, mean, rstd float64) []float64 {
	var a, b float64
	for i := range x {
		a += g[i]
		b += g[i] * (x[i] - mean) * rstd
	}
	n := float64(len(x))
	dx := make([]float64, len(x))
	for i := range x {
		dx[i] = rstd * (g[i] - a/n - (x[i]-mean)*rstd*b/n)
	}
	return dx
}

// softmax of x, and the log of the sum of its exponentials.
func softmax(x []float64) (p []float64, lse float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	lse = top + math.Log(sum)
	p = make([]float64, len(x))
	for i, v := range x {
		p[i] = math.Exp(v - lse)
	}
	return p, lse
}

// twinCrossEntropy is the summed loss, the hits and (softmax-onehot)*scale.
func twinCrossEntropy(logits []float64, targets []int, n int, scale float64) (loss float64, correct int, grad []float64) {
	grad = make([]float64, len(logits))
	for r, target := range targets {
		if target < 0 {
			continue
		}
		row := logits[r*n : (r+1)*n]
		p, lse := softmax(row)
		loss += lse - row[target]
		best := 0
		for i, v := range row {
			grad[r*n+i] = p[i] * scale
			if v > row[best] {
				best = i
			}
		}
		grad[r*n+target] -= scale
		if best == target {
			correct++
		}
	}
	return loss, correct, grad
}

// twinPhilox is one block of Philox4x32-10 as its paper writes it.
func twinPhilox(ctr [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		p0 := uint64(0xD2511F53) * uint64(ctr[0])
		p1 := uint64(0xCD9E8D57) * uint64(ctr[2])
		ctr = [4]uint32{uint32(p1>>32) ^ ctr[1] ^ key[0], uint32(p1), uint32(p0>>32) ^ ctr[3] ^ key[1], uint32(p0)}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return ctr
}
