package devicetest

import "math"

// convShape is the shape of a convolution, or with out = in of a pooling.
type convShape struct {
	batch, in, h, w, out    int
	kernel, stride, padding int
}

func (c convShape) rows() int { return (c.h+2*c.padding-c.kernel)/c.stride + 1 }
func (c convShape) cols() int { return (c.w+2*c.padding-c.kernel)/c.stride + 1 }

func (c convShape) xShape() []int   { return []int{c.batch, c.in, c.h, c.w} }
func (c convShape) wShape() []int   { return []int{c.out, c.in, c.kernel, c.kernel} }
func (c convShape) outShape() []int { return []int{c.batch, c.out, c.rows(), c.cols()} }

// each visits every product of a convolution: places in Out, X and Weight.
func (c convShape) each(visit func(o, x, w int)) {
	for b := range c.batch {
		for oc := range c.out {
			for r := range c.rows() {
				for q := range c.cols() {
					o := ((b*c.out+oc)*c.rows()+r)*c.cols() + q
					for ic := range c.in {
						for ky := range c.kernel {
							for kx := range c.kernel {
								y, x := r*c.stride+ky-c.padding, q*c.stride+kx-c.padding
								if y < 0 || y >= c.h || x < 0 || x >= c.w {
									continue
								}
								visit(o, ((b*c.in+ic)*c.h+y)*c.w+x, ((oc*c.in+ic)*c.kernel+ky)*c.kernel+kx)
							}
						}
					}
				}
			}
		}
	}
}

// channel is the channel of element o of Out.
func (c convShape) channel(o int) int { return o / (c.rows() * c.cols()) % c.out }

func (c convShape) outLen() int { return c.batch * c.out * c.rows() * c.cols() }

func twinConv(c convShape, x, w, bias []float64) []float64 {
	out := make([]float64, c.outLen())
	for o := range out {
		if bias != nil {
			out[o] = bias[c.channel(o)]
		}
	}
	c.each(func(o, i, j int) { out[o] += x[i] * w[j] })
	return out
}

func twinConvGrad(c convShape, x, w, dout []float64) (dx, dw, db []float64) {
	dx, dw, db = make([]float64, len(x)), make([]float64, len(w)), make([]float64, c.out)
	for o, g := range dout {
		db[c.channel(o)] += g
	}
	c.each(func(o, i, j int) {
		dx[i] += dout[o] * w[j]
		dw[j] += dout[o] * x[i]
	})
	return dx, dw, db
}

// eachWindow visits the elements of each window: the place in Out, in X, and
// in X's plane.
func (c convShape) eachWindow(visit func(o, x, place int)) {
	for p := range c.batch * c.in {
		for r := range c.rows() {
			for q := range c.cols() {
				for ky := range c.kernel {
					for kx := range c.kernel {
						place := (r*c.stride+ky)*c.w + q*c.stride + kx
						visit((p*c.rows()+r)*c.cols()+q, p*c.h*c.w+place, place)
					}
				}
			}
		}
	}
}

func twinMaxPool(c convShape, x []float64) (out []float64, index []int) {
	out, index = constant(c.outLen(), math.Inf(-1)), make([]int, c.outLen())
	for o := range index {
		index[o] = -1
	}
	c.eachWindow(func(o, i, place int) {
		if index[o] < 0 || x[i] > out[o] || math.IsNaN(x[i]) {
			out[o], index[o] = x[i], place
		}
	})
	return out, index
}

func twinAvgPool(c convShape, x []float64) []float64 {
	out := make([]float64, c.outLen())
	c.eachWindow(func(o, i, _ int) { out[o] += x[i] / float64(c.kernel*c.kernel) })
	return out
}

func twinPoolGrad(c convShape, dout []float64, index []int) []float64 {
	dx := make([]float64, c.batch*c.in*c.h*c.w)
	c.eachWindow(func(o, i, place int) {
		switch {
		case index == nil:
			dx[i] += dout[o] / float64(c.kernel*c.kernel)
		case index[o] == place:
			dx[i] += dout[o]
		}
	})
	return dx
}

// normShape is [batch channels plane].
type normShape struct{ batch, channels, plane int }

// gather is channel ch of all samples in one row.
func (n normShape) gather(x []float64, ch int) []float64 {
	var row []float64
	for b := range n.batch {
		at := (b*n.channels + ch) * n.plane
		row = append(row, x[at:at+n.plane]...)
	}
	return row
}

// scatter puts a row of gather back.
func (n normShape) scatter(x, row []float64, ch int) {
	for b := range n.batch {
		copy(x[(b*n.channels+ch)*n.plane:], row[b*n.plane:(b+1)*n.plane])
	}
}

func twinBatchNorm(n normShape, x, gamma, beta []float64, eps float64) (out, mean, rstd []float64) {
	out = make([]float64, len(x))
	for ch := range n.channels {
		row := n.gather(x, ch)
		m, s := moments(row, eps)
		mean, rstd = append(mean, m), append(rstd, s)
		for i := range row {
			row[i] = (row[i]-m)*s*gamma[ch] + beta[ch]
		}
		n.scatter(out, row, ch)
	}
	return out, mean, rstd
}

func twinBatchNormGrad(n normShape, x, dout, gamma []float64, eps float64) (dx, dgamma, dbeta []float64) {
	dx, dgamma, dbeta = make([]float64, len(x)), make([]float64, n.channels), make([]float64, n.channels)
	for ch := range n.channels {
		row, g := n.gather(x, ch), n.gather(dout, ch)
		m, s := moments(row, eps)
		for i := range row {
			dgamma[ch] += g[i] * (row[i] - m) * s
			dbeta[ch] += g[i]
			g[i] *= gamma[ch]
		}
		n.scatter(dx, normGrad(row, g, m, s), ch)
	}
	return dx, dgamma, dbeta
}
