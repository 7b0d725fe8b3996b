package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// Conv2D multiplies the weights by each sample's patch matrix
// [in*kernel*kernel, pixels].
func (d *Device) Conv2D(a device.Conv2DArgs) error {
	c := d.check("conv2d")
	g := c.conv("Out", a.Out, "X", a.X, "Weight", a.Weight, a.Kernel, a.Stride, a.Padding)
	c.optVector("Bias", a.Bias, g.out)
	c.apart("Out", a.Out, "X", a.X)
	c.apart("Out", a.Out, "Weight", a.Weight)
	if c.err != nil || a.Out.Len() == 0 {
		return c.err
	}
	buf, err := d.workspace(g.scratch())
	if err != nil {
		return err
	}
	w, out := floats(a.Weight), floats(a.Out)
	var beta float32
	if a.Bias != nil {
		for i := range g.batch * g.out {
			simd.Fill(out[i*g.pixels:(i+1)*g.pixels], floats(a.Bias)[i%g.out])
		}
		beta = 1
	}
	for b := range g.batch {
		patches := g.patches(buf, g.sample(a.X, b))
		d.gemm(false, false, g.out, g.pixels, g.patch, 1, w, g.patch, patches, g.pixels, beta, out[b*g.out*g.pixels:], g.pixels)
	}
	return d.failed(c.op)
}

// Conv2DGrad computes the wanted gradients sample by sample; the weights'
// gradient adds up over the samples.
func (d *Device) Conv2DGrad(a device.Conv2DGradArgs) error {
	c := d.check("conv2d gradient")
	g := c.convGrad(a)
	if c.err != nil {
		return c.err
	}
	buf, err := d.workspace(g.scratch())
	if err != nil {
		return err
	}
	if !a.Accumulate {
		clear(floats(a.DWeight))
		clear(floats(a.DBias))
	}
	clear(floats(a.DX))
	if a.DOut.Len() == 0 {
		return nil
	}
	for b := range g.batch {
		dout := floats(a.DOut)[b*g.out*g.pixels : (b+1)*g.out*g.pixels]
		if a.DBias != nil {
			for i := range g.out {
				floats(a.DBias)[i] += simd.Sum(dout[i*g.pixels : (i+1)*g.pixels])
			}
		}
		if a.DWeight != nil {
			patches := g.patches(buf, g.sample(a.X, b))
			d.gemm(false, true, g.out, g.patch, g.pixels, 1, dout, g.pixels, patches, g.pixels, 1, floats(a.DWeight), g.patch)
		}
		if a.DX != nil {
			d.convDX(g, g.sample(a.DX, b), floats(a.Weight), dout, buf)
		}
	}
	return d.failed(c.op)
}

// convDX computes one sample's input gradient; dx is cleared.
func (d *Device) convDX(g geometry, dx, weight, dout, buf []float32) {
	if g.direct() {
		buf = dx
	}
	d.gemm(true, false, g.patch, g.pixels, g.out, 1, weight, g.patch, dout, g.pixels, 0, buf, g.pixels)
	if !g.direct() {
		g.scatter(dx, buf)
	}
}

// conv checks a convolution's operands and returns its geometry.
func (c *check) conv(outRole string, out T, xRole string, x T, wRole string, w T, kernel, stride, padding int) geometry {
	c.positive("Kernel", kernel)
	c.positive("Stride", stride)
	if padding < 0 {
		c.fail("Padding is %d, want at least 0", padding)
	}
	c.isPlanes(outRole, out)
	c.isPlanes(xRole, x)
	c.isPlanes(wRole, w)
	if c.err != nil {
		return geometry{}
	}
	g := geometry{
		batch: x.Dim(0), in: x.Dim(1), height: x.Dim(2), width: x.Dim(3), out: w.Dim(0),
		kernel: kernel, stride: stride, padding: padding,
	}
	if g.height+2*padding < kernel || g.width+2*padding < kernel {
		c.fail("%s %s is %v, smaller than the kernel of %d with padding %d", xRole, x.Name, x.Shape(), kernel, padding)
	}
	g.rows = (g.height+2*padding-kernel)/stride + 1
	g.columns = (g.width+2*padding-kernel)/stride + 1
	g.pixels = g.rows * g.columns
	g.patch = g.in * kernel * kernel
	c.planes(wRole, w, g.out, g.in, kernel, kernel)
	c.planes(outRole, out, g.batch, g.out, g.rows, g.columns)
	return g
}

// convGrad checks the operands. X is needed for its shape even when only the
// input's gradient is wanted, and Weight likewise.
func (c *check) convGrad(a device.Conv2DGradArgs) geometry {
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
		c.planes("DX", a.DX, g.batch, g.in, g.height, g.width)
		c.apart("DX", a.DX, "DOut", a.DOut)
		c.apart("DX", a.DX, "X", a.X)
	}
	if a.DWeight != nil {
		c.planes("DWeight", a.DWeight, g.out, g.in, a.Kernel, a.Kernel)
	}
	c.optVector("DBias", a.DBias, g.out)
	return g
}
