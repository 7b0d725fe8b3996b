package simd

// AddTo sets dst += src.
func AddTo(dst, src []float32) {
	n := min(len(dst), len(src))
	addTo(dst[:n], src[:n])
}

// Add sets dst = a + b.
func Add(dst, a, b []float32) {
	n := min(len(dst), len(a), len(b))
	add(dst[:n], a[:n], b[:n])
}

// MulTo sets dst *= src.
func MulTo(dst, src []float32) {
	n := min(len(dst), len(src))
	mulTo(dst[:n], src[:n])
}

// Mul sets dst = a * b.
func Mul(dst, a, b []float32) {
	n := min(len(dst), len(a), len(b))
	mul(dst[:n], a[:n], b[:n])
}

// MinTo sets dst to the lesser of dst and src. A NaN in either gives NaN, so
// that a reduction over ranks cannot hide it.
func MinTo(dst, src []float32) {
	n := min(len(dst), len(src))
	minTo(dst[:n], src[:n])
}

// MaxTo sets dst to the greater of dst and src. A NaN in either gives NaN.
func MaxTo(dst, src []float32) {
	n := min(len(dst), len(src))
	maxTo(dst[:n], src[:n])
}

// Axpy sets dst += alpha * x.
func Axpy(dst []float32, alpha float32, x []float32) {
	n := min(len(dst), len(x))
	axpy(dst[:n], x[:n], alpha)
}

// Scale sets dst *= alpha.
func Scale(dst []float32, alpha float32) { scaleTo(dst, dst, alpha) }

// ScaleTo sets dst = alpha * src.
func ScaleTo(dst, src []float32, alpha float32) {
	n := min(len(dst), len(src))
	scaleTo(dst[:n], src[:n], alpha)
}

// Fill sets dst = value.
func Fill(dst []float32, value float32) { fill(dst, value) }
