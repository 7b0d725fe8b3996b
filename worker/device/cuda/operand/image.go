package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Conv is the geometry of a checked convolution.
type Conv struct {
	Batch, In, Height, Width int // of X
	Out, Rows, Columns       int // of Out
	Kernel, Stride, Padding  int
}

// Pixels is the size of an output plane.
func (g Conv) Pixels() int { return g.Rows * g.Columns }

// Patch is the number of input elements under a kernel.
func (g Conv) Patch() int { return g.In * g.Kernel * g.Kernel }

// Conv2D checks the operands of Ops.Conv2D.
func Conv2D(p tensor.Place, a device.Conv2DArgs) (Conv, error) {
	c := check{place: p, op: "conv2d"}
	g := c.conv("Out", a.Out, "X", a.X, "Weight", a.Weight, a.Kernel, a.Stride, a.Padding)
	c.optVector("Bias", a.Bias, g.Out)
	c.apart("Out", a.Out, "X", a.X)
	c.apart("Out", a.Out, "Weight", a.Weight)
	return g, c.err
}

// Conv2DGrad checks the operands of Ops.Conv2DGrad. X is needed for its shape
// even when only the input's gradient is wanted, and Weight likewise, unless
// that gradient is there to tell it.
func Conv2DGrad(p tensor.Place, a device.Conv2DGradArgs) (Conv, error) {
	c := check{place: p, op: "conv2d gradient"}
	x, xRole := a.X, "X"
	if x == nil && a.DWeight == nil {
		x, xRole = a.DX, "DX"
	}
	w, wRole := a.Weight, "Weight"
	if w == nil && a.DX == nil {
		w, wRole = a.DWeight, "DWeight"
	}
	g := c.conv("DOut", a.DOut, xRole, x, wRole, w, a.Kernel, a.Stride, a.Padding)
	if a.DX != nil {
		c.planes("DX", a.DX, g.Batch, g.In, g.Height, g.Width)
		c.apart("DX", a.DX, "DOut", a.DOut)
		c.apart("DX", a.DX, "X", a.X)
	}
	if a.DWeight != nil {
		c.planes("DWeight", a.DWeight, g.Out, g.In, a.Kernel, a.Kernel)
	}
	c.optVector("DBias", a.DBias, g.Out)
	return g, c.err
}

func (c *check) conv(outRole string, out T, xRole string, x T, wRole string, w T, kernel, stride, padding int) Conv {
	c.positive("Kernel", kernel)
	c.positive("Stride", stride)
	if padding < 0 {
		c.fail("Padding is %d, want at least 0", padding)
	}
	c.isPlanes(outRole, out)
	c.isPlanes(xRole, x)
	c.isPlanes(wRole, w)
	if c.err != nil {
		return Conv{}
	}
	g := Conv{
		Batch: x.Dim(0), In: x.Dim(1), Height: x.Dim(2), Width: x.Dim(3), Out: w.Dim(0),
		Kernel: kernel, Stride: stride, Padding: padding,
	}
	if g.Height+2*padding < kernel || g.Width+2*padding < kernel {
		c.fail("%s %s is %v, smaller than the kernel of %d with padding %d", xRole, x.Name, x.Shape(), kernel, padding)
	}
	g.Rows = (g.Height+2*padding-kernel)/stride + 1
	g.Columns = (g.Width+2*padding-kernel)/stride + 1
	c.planes(wRole, w, g.Out, g.In, kernel, kernel)
	c.planes(outRole, out, g.Batch, g.Out, g.Rows, g.Columns)
	c.counts("a dimension", g.Batch, g.Pixels(), g.Patch(), g.Height*g.Width)
	return g
}

// Windows is the geometry of a checked pooling.
type Windows struct {
	Planes, Height, Width int // of X; Planes = batch*channels
	Rows, Columns         int // of Out
	Kernel, Stride        int
}

// Pool checks the operands of Ops.Pool.
func Pool(p tensor.Place, a device.PoolArgs) (Windows, error) {
	c := check{place: p, op: "pool"}
	w := c.windows("Out", a.Out, "X", a.X, a.Kernel, a.Stride)
	if a.Max && a.Index != nil && c.err == nil {
		c.ints("Index", a.Index, a.Out.Len())
	}
	c.apart("Out", a.Out, "X", a.X)
	return w, c.err
}

// PoolGrad checks the operands of Ops.PoolGrad.
func PoolGrad(p tensor.Place, a device.PoolGradArgs) (Windows, error) {
	c := check{place: p, op: "pool gradient"}
	w := c.windows("DOut", a.DOut, "DX", a.DX, a.Kernel, a.Stride)
	c.apart("DX", a.DX, "DOut", a.DOut)
	if a.Max && c.err == nil {
		c.ints("Index", a.Index, a.DOut.Len())
	}
	return w, c.err
}

func (c *check) windows(outRole string, out T, xRole string, x T, kernel, stride int) Windows {
	c.positive("Kernel", kernel)
	c.positive("Stride", stride)
	c.isPlanes(outRole, out)
	if !c.isPlanes(xRole, x) {
		return Windows{}
	}
	w := Windows{Planes: x.Dim(0) * x.Dim(1), Height: x.Dim(2), Width: x.Dim(3), Kernel: kernel, Stride: stride}
	if w.Height < kernel || w.Width < kernel {
		c.fail("%s %s is %v, smaller than the window of %d", xRole, x.Name, x.Shape(), kernel)
		return w
	}
	w.Rows, w.Columns = (w.Height-kernel)/stride+1, (w.Width-kernel)/stride+1
	c.planes(outRole, out, x.Dim(0), x.Dim(1), w.Rows, w.Columns)
	c.counts("a dimension", w.Planes, w.Height*w.Width)
	return w
}
