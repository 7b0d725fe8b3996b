package cpu

import "github.com/ddprun/ddprun/worker/device"

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
	x, out := floats(a.X), floats(a.Out)
	var index []int32
	if a.Max && a.Index != nil {
		index = a.Index.Int32s()
	}
	w.each(func(at, plane, corner int) {
		src := x[plane : plane+w.height*w.width]
		if !a.Max {
			out[at] = w.sum(src, corner) / float32(w.kernel*w.kernel)
			return
		}
		place := w.largest(src, corner)
		out[at] = src[place]
		if index != nil {
			index[at] = int32(place)
		}
	})
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
	dx, dout := floats(a.DX), floats(a.DOut)
	clear(dx)
	w.each(func(at, plane, corner int) {
		dst := dx[plane : plane+w.height*w.width]
		if a.Max {
			dst[a.Index.Int32s()[at]] += dout[at]
			return
		}
		w.spread(dst, corner, dout[at]/float32(w.kernel*w.kernel))
	})
	return nil
}

// each visits the windows: element at of the output has its first element at
// place corner of the plane that begins at element plane.
func (w windows) each(visit func(at, plane, corner int)) {
	at := 0
	for p := range w.planes {
		for row := range w.rows {
			for col := range w.columns {
				visit(at, p*w.height*w.width, row*w.stride*w.width+col*w.stride)
				at++
			}
		}
	}
}

func (w windows) sum(plane []float32, corner int) float32 {
	var s float32
	for y := range w.kernel {
		for _, v := range plane[corner+y*w.width:][:w.kernel] {
			s += v
		}
	}
	return s
}

func (w windows) largest(plane []float32, corner int) int {
	best := corner
	for y := range w.kernel {
		at := corner + y*w.width
		for i, v := range plane[at:][:w.kernel] {
			if v > plane[best] || v != v {
				best = at + i
			}
		}
	}
	return best
}

func (w windows) spread(plane []float32, corner int, g float32) {
	for y := range w.kernel {
		row := plane[corner+y*w.width:][:w.kernel]
		for i := range row {
			row[i] += g
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
