package simd

// ReLU sets dst = max(x, 0); NaN stays NaN.
func ReLU(dst, x []float32) {
	n := min(len(dst), len(x))
	reluTo(dst[:n], x[:n])
}

// ReLUBackward sets dx = dy where y > 0 and 0 elsewhere. y is the output (or
// the input) of ReLU.
func ReLUBackward(dx, dy, y []float32) {
	n := min(len(dx), len(dy), len(y))
	reluBackward(dx[:n], dy[:n], y[:n])
}

// Exp sets dst = exp(x), at most 2 ulp off, subnormal results included.
func Exp(dst, x []float32) {
	n := min(len(dst), len(x))
	expTo(dst[:n], x[:n])
}

// GELU sets dst = 0.5x(1 + tanh(√(2/π)(x + 0.044715x³))), PyTorch's
// approximate="tanh" and the form of GPT-2.
func GELU(dst, x []float32) {
	n := min(len(dst), len(x))
	gelu(dst[:n], x[:n])
}

// GELUBackward sets dx = dy * gelu'(x) for the tanh form.
func GELUBackward(dx, dy, x []float32) {
	n := min(len(dx), len(dy), len(x))
	geluBackward(dx[:n], dy[:n], x[:n])
}

// GELUErf sets dst = 0.5x(1 + erf(x/√2)), PyTorch's default form.
func GELUErf(dst, x []float32) {
	n := min(len(dst), len(x))
	geluErf(dst[:n], x[:n])
}

// GELUErfBackward sets dx = dy * gelu'(x) for the erf form.
func GELUErfBackward(dx, dy, x []float32) {
	n := min(len(dx), len(dy), len(x))
	geluErfBackward(dx[:n], dy[:n], x[:n])
}
