package simd

func addToGo(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

func addGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func mulToGo(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] *= src[i]
	}
}

func mulGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func minToGo(dst, src []float32) {
	src = src[:len(dst)]
	for i, d := range dst {
		switch s := src[i]; {
		case d != d || s != s:
			dst[i] = d + s
		case s < d:
			dst[i] = s
		}
	}
}

func maxToGo(dst, src []float32) {
	src = src[:len(dst)]
	for i, d := range dst {
		switch s := src[i]; {
		case d != d || s != s:
			dst[i] = d + s
		case s > d:
			dst[i] = s
		}
	}
}

func axpyGo(dst, x []float32, alpha float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += alpha * x[i]
	}
}

func scaleToGo(dst, src []float32, alpha float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = alpha * src[i]
	}
}

func fillGo(dst []float32, value float32) {
	for i := range dst {
		dst[i] = value
	}
}

// reluOf lets a NaN and -0 through, as the vector instruction does.
func reluOf(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

func reluToGo(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = reluOf(x[i])
	}
}

func reluBackwardGo(dx, dy, y []float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		var d float32
		if y[i] > 0 {
			d = dy[i]
		}
		dx[i] = d
	}
}

func addReLUGo(dst, bias []float32) {
	bias = bias[:len(dst)]
	for i := range dst {
		dst[i] = reluOf(dst[i] + bias[i])
	}
}
