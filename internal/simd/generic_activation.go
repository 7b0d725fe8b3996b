package simd

import "math"

func expToGo(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Exp(float64(x[i])))
	}
}

func expSumGo(dst, x []float32, shift float32) float32 {
	x = x[:len(dst)]
	var s float64
	for i := range dst {
		e := float32(math.Exp(float64(x[i] - shift)))
		dst[i] = e
		s += float64(e)
	}
	return float32(s)
}

func softmaxBackwardGo(dx, dy, y []float32, dot, scale float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		dx[i] = scale * y[i] * (dy[i] - dot)
	}
}

// Constants of the tanh form: gelu(x) = x·σ(2u), 2u = geluTwoU·(x + geluCubic·x³).
const (
	geluCubic = 0.044715
	geluTwoU  = 2 * math.Sqrt2 / math.SqrtPi
)

func geluOf(x float32) float32 {
	v := float64(x)
	return float32(v / (1 + math.Exp(-geluTwoU*(v+geluCubic*v*v*v))))
}

func geluSlope(x float32) float32 {
	v := min(max(float64(x), -20), 20) // beyond, the slope is 0 or 1
	e := math.Exp(-geluTwoU * (v + geluCubic*v*v*v))
	s := 1 / (1 + e)
	return float32(s + v*s*s*e*geluTwoU*(1+3*geluCubic*v*v))
}

func geluErfOf(x float32) float32 {
	v := float64(x)
	return float32(v * 0.5 * math.Erfc(-v/math.Sqrt2))
}

func geluErfSlope(x float32) float32 {
	v := float64(x)
	return float32(0.5*math.Erfc(-v/math.Sqrt2) + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
}

func geluGo(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = geluOf(x[i])
	}
}

func addGELUGo(pre, out, bias []float32) {
	out, bias = out[:len(pre)], bias[:len(pre)]
	for i := range pre {
		pre[i] += bias[i]
		out[i] = geluOf(pre[i])
	}
}

func geluBackwardGo(dx, dy, x []float32) {
	dy, x = dy[:len(dx)], x[:len(dx)]
	for i := range dx {
		dx[i] = dy[i] * geluSlope(x[i])
	}
}

func geluErfGo(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = geluErfOf(x[i])
	}
}

func addGELUErfGo(pre, out, bias []float32) {
	out, bias = out[:len(pre)], bias[:len(pre)]
	for i := range pre {
		pre[i] += bias[i]
		out[i] = geluErfOf(pre[i])
	}
}

func geluErfBackwardGo(dx, dy, x []float32) {
	dy, x = dy[:len(dx)], x[:len(dx)]
	for i := range dx {
		dx[i] = dy[i] * geluErfSlope(x[i])
	}
}
