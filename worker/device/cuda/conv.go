//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/cublaslt"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// patchBytes bounds the patch matrix; a convolution goes over groups of as
// many samples as fit, at least one.
const patchBytes = 256 << 20

// group is a convolution of some samples as a matrix product: patches
// [patch samples*pixels], and the output channel by channel, [out
// samples*pixels].
type group struct {
	operand.Conv
	d       *Device
	op      string
	patches uintptr
	planes  uintptr
	first   int // sample
	samples int
}

// groups runs f for each group of samples.
func (d *Device) groups(op string, g operand.Conv, f func(group) error) error {
	samples := min(max(patchBytes/(4*max(g.Patch()*g.Pixels(), 1)), 1), g.Batch)
	patches, err := d.temp(op, 4*g.Patch()*samples*g.Pixels())
	if err != nil {
		return err
	}
	defer d.drop(patches)
	planes, err := d.temp(op, 4*g.Out*samples*g.Pixels())
	if err != nil {
		return err
	}
	defer d.drop(planes)
	for first := 0; first < g.Batch; first += samples {
		part := group{Conv: g, d: d, op: op, patches: patches, planes: planes, first: first, samples: min(samples, g.Batch-first)}
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// columns is the number of output pixels of the group.
func (g *group) columns() int { return g.samples * g.Pixels() }

// input is the address of the group's first sample in a tensor like X.
func (g *group) input(x T) uintptr { return x.Addr() + uintptr(4*g.first*g.In*g.Height*g.Width) }

// output is the same for a tensor like Out.
func (g *group) output(x T) uintptr { return x.Addr() + uintptr(4*g.first*g.Out*g.Pixels()) }

// geometry passes the parameters that README.md of kernels calls G.
func (c *call) geometry(g *group) *call {
	return c.ints(g.samples, g.In, g.Height, g.Width, g.Kernel, g.Stride, g.Padding, g.Rows, g.Columns)
}

// gather fills the patch matrix from X.
func (g *group) gather(x T) error {
	return g.d.start(g.op, "ddp_im2col_f32").addr(g.patches, g.input(x)).geometry(g).over(g.Patch() * g.columns()).run()
}

func (g *group) product(out, a, b uintptr, transA, transB bool, m, n, k int, beta float32) error {
	return g.d.anyProduct(product{op: g.op, out: out, a: a, b: b, transA: transA, transB: transB, m: m, n: n, k: k, beta: beta, epilogue: cublaslt.Plain})
}

// Conv2D multiplies the weights by the patches of the samples.
func (d *Device) Conv2D(a device.Conv2DArgs) error {
	g, err := operand.Conv2D(d.place, a)
	if err != nil || a.Out.Len() == 0 {
		return err
	}
	return d.groups("conv2d", g, func(g group) error {
		if err := g.gather(a.X); err != nil {
			return err
		}
		if err := g.product(g.planes, a.Weight.Addr(), g.patches, false, false, g.Out, g.columns(), g.Patch(), 0); err != nil {
			return err
		}
		return d.start(g.op, "ddp_channels_out_f32").addr(g.output(a.Out), g.planes).tensors(a.Bias).
			ints(g.samples, g.Out, g.Pixels()).over(g.Out * g.columns()).run()
	})
}

// Conv2DGrad computes the wanted gradients.
func (d *Device) Conv2DGrad(a device.Conv2DGradArgs) error {
	const op = "conv2d gradient"
	g, err := operand.Conv2DGrad(d.place, a)
	if err != nil {
		return err
	}
	if a.DOut.Len() == 0 || g.In == 0 {
		return d.noGrad(a)
	}
	return d.groups(op, g, func(g group) error {
		err := d.start(op, "ddp_channels_in_f32").addr(g.planes, g.output(a.DOut)).ints(g.samples, g.Out, g.Pixels()).over(g.Out * g.columns()).run()
		if err != nil {
			return err
		}
		add := a.Accumulate || g.first > 0
		if a.DBias != nil {
			err := d.start(op, "ddp_rowsum_f32").tensors(a.DBias).addr(g.planes).ints(g.Out).long(g.columns()).flag(add).grid(g.Out, 1).run()
			if err != nil {
				return err
			}
		}
		if err := g.weightGrad(a, add); err != nil {
			return err
		}
		return g.inputGrad(a)
	})
}

func (g *group) weightGrad(a device.Conv2DGradArgs, add bool) error {
	if a.DWeight == nil {
		return nil
	}
	if err := g.gather(a.X); err != nil {
		return err
	}
	var beta float32
	if add {
		beta = 1
	}
	return g.product(a.DWeight.Addr(), g.planes, g.patches, false, true, g.Out, g.Patch(), g.columns(), beta)
}

func (g *group) inputGrad(a device.Conv2DGradArgs) error {
	if a.DX == nil {
		return nil
	}
	if err := g.product(g.patches, a.Weight.Addr(), g.planes, true, false, g.Patch(), g.columns(), g.Out, 0); err != nil {
		return err
	}
	return g.d.start(g.op, "ddp_col2im_f32").addr(g.input(a.DX), g.patches).geometry(g).over(g.samples * g.In * g.Height * g.Width).run()
}

// noGrad is the gradient of no output.
func (d *Device) noGrad(a device.Conv2DGradArgs) error {
	ts := []T{a.DX}
	if !a.Accumulate {
		ts = append(ts, a.DWeight, a.DBias)
	}
	for _, t := range ts {
		if t == nil {
			continue
		}
		if err := d.Zero(t); err != nil {
			return err
		}
	}
	return nil
}
