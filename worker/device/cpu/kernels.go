package cpu

import "math"

func add(out, a, b []float32) {
	for i, v := range a {
		out[i] = v + b[i]
	}
}

func addTo(dst, src []float32) {
	for i, v := range src {
		dst[i] += v
	}
}

func scale(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

func fillRows(dst, row []float32) {
	for len(dst) > 0 {
		dst = dst[copy(dst, row):]
	}
}

func addBias(dst, row []float32) {
	n := len(row)
	for ; len(dst) > 0; dst = dst[n:] {
		addTo(dst[:n], row)
	}
}

func fillPlanes(dst, values []float32, n int) {
	for c := 0; len(dst) > 0; c = (c + 1) % len(values) {
		for i := range dst[:n] {
			dst[i] = values[c]
		}
		dst = dst[n:]
	}
}

func addPlaneSums(dst, src []float32, n int) {
	for c := range dst {
		dst[c] += float32(sum(src[c*n : (c+1)*n]))
	}
}

func sumRows(dst, src []float32, accumulate bool) {
	if !accumulate {
		clear(dst)
	}
	addColumns(dst, src)
}

func addColumns(dst, src []float32) {
	n := len(dst)
	for ; len(src) > 0; src = src[n:] {
		addTo(dst, src[:n])
	}
}

func relu(out, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		out[i] = v
	}
}

func reluGrad(dx, dout, at []float32) {
	for i, v := range at {
		g := dout[i]
		if v <= 0 {
			g = 0
		}
		dx[i] = g
	}
}

func geluErf(out, x []float32) {
	for i, v := range x {
		out[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
	}
}

func geluErfGrad(dx, dout, at []float32) {
	for i, v := range at {
		x := float64(v)
		phi := 0.5 * (1 + math.Erf(x/math.Sqrt2))
		dx[i] = float32(float64(dout[i]) * (phi + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)))
	}
}

const geluK = 0.7978845608028654

func geluTanh(out, x []float32) {
	for i, v := range x {
		f := float64(v)
		out[i] = float32(0.5 * f * (1 + math.Tanh(geluK*(f+0.044715*f*f*f))))
	}
}

func geluTanhGrad(dx, dout, at []float32) {
	for i, v := range at {
		x := float64(v)
		t := math.Tanh(geluK * (x + 0.044715*x*x*x))
		dx[i] = float32(float64(dout[i]) * (0.5*(1+t) + 0.5*x*(1-t*t)*geluK*(1+3*0.044715*x*x)))
	}
}

func softmaxRow(out, x []float32, scale float32) (top, sum float32) {
	top = x[0]
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		e := float32(math.Exp(float64(v - top)))
		out[i] = e
		sum += e
	}
	f := scale / sum
	for i := range out {
		out[i] *= f
	}
	return top, sum
}

func expMinus(x []float32, minus float32) {
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - minus)))
	}
}

func mulMinus(g, p []float32, minus float32) {
	for i, v := range p {
		g[i] = v * (g[i] - minus)
	}
}

func dot(a, b []float32) float32 {
	var s float32
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

func meanVar(x []float32) (mean, variance float32) {
	n := float64(len(x))
	m := sum(x) / n
	return float32(m), float32(sumSquaredFrom(x, m) / n)
}

func normalize(out, x []float32, mean, rstd float32, gamma, beta []float32) {
	for i, v := range x {
		out[i] = (v-mean)*rstd*gamma[i] + beta[i]
	}
}

func layerNormGradRow(dx, dout, x, dsum, gamma, dgamma, dbeta []float32, mean, rstd float32) {
	var s, t float32
	for i, v := range x {
		hat := (v - mean) * rstd
		g := dout[i]
		dgamma[i] += g * hat
		dbeta[i] += g
		g *= gamma[i]
		s += g
		t += g * hat
	}
	n := float32(len(x))
	s, t = s/n, t/n
	for i, v := range x {
		hat := (v - mean) * rstd
		r := rstd * (dout[i]*gamma[i] - s - hat*t)
		if dsum != nil {
			r += dsum[i]
		}
		dx[i] = r
	}
}

func sum(x []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		s0 += float64(x[0])
		s1 += float64(x[1])
		s2 += float64(x[2])
		s3 += float64(x[3])
		x = x[4:]
	}
	for _, v := range x {
		s0 += float64(v)
	}
	return s0 + s1 + s2 + s3
}

func sumSquares(x []float32) float64 { return sumSquaredFrom(x, 0) }

func sumSquaredFrom(x []float32, from float64) float64 {
	var s float64
	for _, v := range x {
		d := float64(v) - from
		s += d * d
	}
	return s
}

// sumAlong is the sum of g and of g*(x-mean).
func sumAlong(g, x []float32, mean float64) (total, along float64) {
	for i, v := range g {
		total += float64(v)
		along += float64(v) * (float64(x[i]) - mean)
	}
	return total, along
}

func affine(out, x []float32, scale, shift float32) {
	for i, v := range x {
		out[i] = v*scale + shift
	}
}

func affine2(out, a, b []float32, ka, kb, shift float32) {
	for i, v := range a {
		out[i] = v*ka + b[i]*kb + shift
	}
}
