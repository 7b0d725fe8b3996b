package cpu

import "github.com/ddprun/ddprun/internal/simd"

// In a convolution whose output is as large as its input, a row of the patch
// matrix is an input plane moved by some rows and columns: one long copy, then
// zeros in the columns that came from the neighbouring row.

// same says whether planes keep their size.
func (g geometry) same() bool {
	return g.stride == 1 && g.rows == g.height && g.columns == g.width
}

// shiftIn fills the patch matrix.
func (g geometry) shiftIn(buf, x []float32) {
	for ch := range g.in {
		plane := x[ch*g.pixels : (ch+1)*g.pixels]
		for ky := range g.kernel {
			for kx := range g.kernel {
				row := buf[:g.pixels]
				lo, hi, shift := g.overlap(ky-g.padding, kx-g.padding)
				clear(row[:lo])
				copy(row[lo:hi], plane[lo+shift:hi+shift])
				clear(row[hi:])
				g.clearEdge(row, kx-g.padding)
				buf = buf[g.pixels:]
			}
		}
	}
}

// shiftOut adds the patch matrix into the sample.
func (g geometry) shiftOut(x, buf []float32) {
	for ch := range g.in {
		plane := x[ch*g.pixels : (ch+1)*g.pixels]
		for ky := range g.kernel {
			for kx := range g.kernel {
				row := buf[:g.pixels]
				lo, hi, shift := g.overlap(ky-g.padding, kx-g.padding)
				g.clearEdge(row, kx-g.padding)
				simd.AddTo(plane[lo+shift:hi+shift], row[lo:hi])
				buf = buf[g.pixels:]
			}
		}
	}
}

// overlap is the range of places of a plane moved by dy rows and dx columns
// that lie in the plane, and the distance to where they come from.
func (g geometry) overlap(dy, dx int) (lo, hi, shift int) {
	shift = dy*g.width + dx
	lo = max(0, -dy*g.width, -shift)
	hi = min(g.pixels, g.pixels-dy*g.width, g.pixels-shift)
	if lo >= hi {
		return 0, 0, 0
	}
	return lo, hi, shift
}

// clearEdge clears the columns that came from outside the plane.
func (g geometry) clearEdge(row []float32, dx int) {
	from, to := 0, min(-dx, g.width)
	if dx > 0 {
		from, to = max(g.width-dx, 0), g.width
	}
	if from >= to {
		return
	}
	for ; len(row) > 0; row = row[g.width:] {
		for i := from; i < to; i++ {
			row[i] = 0
		}
	}
}
