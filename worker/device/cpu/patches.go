package cpu

import "github.com/ddprun/ddprun/internal/simd"

// geometry is the shape of a convolution.
type geometry struct {
	batch, in, height, width int // of X
	out, rows, columns       int // of Out
	kernel, stride, padding  int
	pixels                   int // rows*columns
	patch                    int // in*kernel*kernel, the rows of the patch matrix
}

// direct says whether a sample is its own patch matrix.
func (g geometry) direct() bool { return g.kernel == 1 && g.stride == 1 && g.padding == 0 }

// scratch is the size of the patch matrix.
func (g geometry) scratch() int {
	if g.direct() {
		return 0
	}
	return g.patch * g.pixels
}

// sample is sample b of X or of its gradient.
func (g geometry) sample(x T, b int) []float32 {
	n := g.in * g.height * g.width
	return floats(x)[b*n : (b+1)*n]
}

// patches is the patch matrix of one sample, built in buf.
func (g geometry) patches(buf, x []float32) []float32 {
	switch {
	case g.direct():
		return x
	case g.same():
		g.shiftIn(buf, x)
	default:
		g.gather(buf, x)
	}
	return buf
}

// scatter adds the patch matrix in buf into one sample; buf is spoilt.
func (g geometry) scatter(x, buf []float32) {
	if g.same() {
		g.shiftOut(x, buf)
		return
	}
	g.eachRow(func(at, plane, y, x0, x1, from int) {
		if x0 >= x1 {
			return
		}
		src, dst := buf[at+x0:at+x1], x[plane+y*g.width:]
		if g.stride == 1 {
			simd.AddTo(dst[from:from+len(src)], src)
			return
		}
		for _, v := range src {
			dst[from] += v
			from += g.stride
		}
	})
}

// gather fills the patch matrix row by row.
func (g geometry) gather(buf, x []float32) {
	g.eachRow(func(at, plane, y, x0, x1, from int) {
		dst := buf[at : at+g.columns]
		if x0 >= x1 {
			clear(dst)
			return
		}
		clear(dst[:x0])
		clear(dst[x1:])
		src := x[plane+y*g.width:]
		if g.stride == 1 {
			copy(dst[x0:x1], src[from:])
			return
		}
		for i := x0; i < x1; i++ {
			dst[i] = src[from]
			from += g.stride
		}
	})
}

// eachRow visits the patch matrix by rows of output pixels: the row begins at
// element at of the matrix; its pixels x0 to x1 (excluded) come from row y of
// the input plane that begins at plane, the first of them at column from. A
// row that lies in the padding has x0 = x1.
func (g geometry) eachRow(visit func(at, plane, y, x0, x1, from int)) {
	at := 0
	for ch := range g.in {
		plane := ch * g.height * g.width
		for ky := range g.kernel {
			for kx := range g.kernel {
				x0, x1 := g.inside(kx)
				for row := range g.rows {
					y := row*g.stride + ky - g.padding
					if y < 0 || y >= g.height {
						visit(at, plane, 0, 0, 0, 0)
					} else {
						visit(at, plane, y, x0, x1, x0*g.stride+kx-g.padding)
					}
					at += g.columns
				}
			}
		}
	}
}

// inside is the range of output columns whose input column, for kernel column
// kx, is not padding.
func (g geometry) inside(kx int) (x0, x1 int) {
	if short := g.padding - kx; short > 0 {
		x0 = (short + g.stride - 1) / g.stride
	}
	last := g.width - 1 + g.padding - kx // the largest x*stride that is inside
	if last < 0 {
		return 0, 0
	}
	return x0, min(last/g.stride+1, g.columns)
}
