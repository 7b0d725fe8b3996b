package cpu

import (
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

// windows is the geometry of a checked pooling.
type windows struct {
	planes, height, width int // of X; planes = batch*channels
	rows, columns         int // of Out
	kernel, stride        int
}

// Pool takes the largest or the average element of each window. Of equal
// elements the first counts; a NaN wins, as in PyTorch.
func (d *Device) Pool(a device.PoolArgs) error {
	c := d.check("pool")
	w := c.windows("Out", a.Out, "X", a.X, a.Kernel, a.Stride)
	if a.Max && a.Index != nil && c.err == nil {
		c.ints("Index", a.Index, a.Out.Len())
	}
	c.apart("Out", a.Out, "X", a.X)
	if c.err != nil {
		return c.err
	}
	switch {
	case !a.Max:
		w.average(floats(a.Out), floats(a.X))
	case a.Index == nil:
		w.largest(floats(a.Out), nil, floats(a.X))
	default:
		w.largest(floats(a.Out), a.Index.Int32s(), floats(a.X))
	}
	return nil
}

// PoolGrad spreads each output's gradient over its window.
func (d *Device) PoolGrad(a device.PoolGradArgs) error {
	c := d.check("pool gradient")
	w := c.windows("DOut", a.DOut, "DX", a.DX, a.Kernel, a.Stride)
	c.apart("DX", a.DX, "DOut", a.DOut)
	if a.Max && c.err == nil {
		c.ints("Index", a.Index, a.DOut.Len())
		c.indexInside(a.Index, w.height*w.width)
	}
	if c.err != nil {
		return c.err
	}
	clear(floats(a.DX))
	if a.Max {
		w.place(floats(a.DX), floats(a.DOut), a.Index.Int32s())
	} else {
		w.spread(floats(a.DX), floats(a.DOut))
	}
	return nil
}

// eachLine visits the rows of windows: the outputs from element at on, and the
// input plane with the place of the first window's first element.
func (w windows) eachLine(visit func(at int, plane []float32, corner int), x []float32) {
	size, at := w.height*w.width, 0
	for p := range w.planes {
		for row := range w.rows {
			visit(at, x[p*size:(p+1)*size], row*w.stride*w.width)
			at += w.columns
		}
	}
}

// largest sets out to the windows' largest elements and index, when there is
// one, to their places.
func (w windows) largest(out []float32, index []int32, x []float32) {
	line := w.largestLine
	if w.kernel == 2 {
		line = w.largestLine2
	}
	places := make([]int32, w.columns)
	w.eachLine(func(at int, plane []float32, corner int) {
		if index != nil {
			places = index[at : at+w.columns]
		}
		line(out[at:at+w.columns], places, plane, corner)
	}, x)
}

func (w windows) largestLine(out []float32, places []int32, plane []float32, corner int) {
	for col := range out {
		place := corner + col*w.stride
		best, first := plane[place], place
		for range w.kernel {
			for i, v := range plane[first : first+w.kernel] {
				if v > best || v != v {
					best, place = v, first+i
				}
			}
			first += w.width
		}
		out[col], places[col] = best, int32(place)
	}
}

// largestLine2 is largestLine for windows of 2 x 2, the usual ones. Which
// element is the largest cannot be predicted, so it is found without branches:
// each becomes an integer that is larger for a larger value and, of equal
// ones, for the earlier place.
func (w windows) largestLine2(out []float32, places []int32, plane []float32, corner int) {
	upper, lower := plane[corner:], plane[corner+w.width:]
	stride, width, x := w.stride, w.width, 0
	for col := range out {
		best := max(order(upper[x])<<2|3, order(upper[x+1])<<2|2, order(lower[x])<<2|1, order(lower[x+1])<<2)
		nth := int(^best & 3)
		place := x + nth&1 + nth>>1*width
		out[col], places[col] = upper[place], int32(corner+place)
		x += stride
	}
}

// order maps floats to integers of the same order; both zeros are one, and a
// NaN is above all.
func order(v float32) int64 {
	if v != v {
		return math.MaxInt32
	}
	bits := int32(math.Float32bits(v + 0))
	return int64(bits ^ bits>>31&math.MaxInt32)
}

// average sets out to the windows' means.
func (w windows) average(out, x []float32) {
	scale := 1 / float32(w.kernel*w.kernel)
	w.eachLine(func(at int, plane []float32, corner int) {
		for col := range w.columns {
			var sum float32
			first := corner + col*w.stride
			for range w.kernel {
				for _, v := range plane[first : first+w.kernel] {
					sum += v
				}
				first += w.width
			}
			out[at+col] = sum * scale
		}
	}, x)
}

// spread adds each output's gradient, divided, to all elements of its window.
func (w windows) spread(dx, dout []float32) {
	scale := 1 / float32(w.kernel*w.kernel)
	w.eachLine(func(at int, plane []float32, corner int) {
		for col := range w.columns {
			g := dout[at+col] * scale
			first := corner + col*w.stride
			for range w.kernel {
				row := plane[first : first+w.kernel]
				for i := range row {
					row[i] += g
				}
				first += w.width
			}
		}
	}, dx)
}

// place adds each output's gradient to the element it came from.
func (w windows) place(dx, dout []float32, index []int32) {
	size, n := w.height*w.width, w.rows*w.columns
	for p := range w.planes {
		plane := dx[p*size : (p+1)*size]
		for i, at := range index[p*n : (p+1)*n] {
			plane[at] += dout[p*n+i]
		}
	}
}

func (c *check) windows(outRole string, out T, xRole string, x T, kernel, stride int) windows {
	c.positive("Kernel", kernel)
	c.positive("Stride", stride)
	c.isPlanes(outRole, out)
	if !c.isPlanes(xRole, x) {
		return windows{}
	}
	w := windows{planes: x.Dim(0) * x.Dim(1), height: x.Dim(2), width: x.Dim(3), kernel: kernel, stride: stride}
	if w.height < kernel || w.width < kernel {
		c.fail("%s %s is %v, smaller than the window of %d", xRole, x.Name, x.Shape(), kernel)
	}
	w.rows, w.columns = (w.height-kernel)/stride+1, (w.width-kernel)/stride+1
	c.planes(outRole, out, x.Dim(0), x.Dim(1), w.rows, w.columns)
	return w
}

// indexInside refuses places outside a plane: the forward did not fill them.
func (c *check) indexInside(index T, n int) {
	if c.err != nil {
		return
	}
	for at, i := range index.Int32s() {
		if i < 0 || int(i) >= n {
			c.fail("Index %s has %d at element %d, outside the %d elements of a plane", index.Name, i, at, n)
			return
		}
	}
}
