package simd

// The functions of this file take row-major matrices whose width is the
// length of the vector argument; an incomplete last row is left alone.

// AddBias adds bias to each row of dst.
func AddBias(dst, bias []float32) {
	n := len(bias)
	for ; n > 0 && len(dst) >= n; dst = dst[n:] {
		addTo(dst[:n], bias)
	}
}

// AddBiasReLU adds bias to each row of dst and clears what is below zero.
func AddBiasReLU(dst, bias []float32) {
	n := len(bias)
	for ; n > 0 && len(dst) >= n; dst = dst[n:] {
		addReLU(dst[:n], bias)
	}
}

// AddBiasGELU adds bias to each row of pre and sets out = gelu(pre), tanh
// form; pre is what GELUBackward needs.
func AddBiasGELU(pre, out, bias []float32) {
	n := len(bias)
	for ; n > 0 && len(pre) >= n && len(out) >= n; pre, out = pre[n:], out[n:] {
		addGELU(pre[:n], out[:n], bias)
	}
}

// AddBiasGELUErf is AddBiasGELU with the erf form.
func AddBiasGELUErf(pre, out, bias []float32) {
	n := len(bias)
	for ; n > 0 && len(pre) >= n && len(out) >= n; pre, out = pre[n:], out[n:] {
		addGELUErf(pre[:n], out[:n], bias)
	}
}

// rowBlock is how many rows are added in registers before the sum goes into
// dst; like block it bounds the rounding error.
const rowBlock = 128

// ColSumTo adds the column sums of x to dst (the gradient of a bias).
func ColSumTo(dst, x []float32) {
	if len(dst) == 0 {
		return
	}
	for rows := len(x) / len(dst); rows > 0; {
		k := min(rows, rowBlock)
		columnSum(dst, x[:k*len(dst)], k)
		x = x[k*len(dst):]
		rows -= k
	}
}
