//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// LayerNorm normalises each row, after adding the residual when it is there.
func (d *Device) LayerNorm(a device.LayerNormArgs) error {
	rows, n, err := operand.LayerNorm(d.place, a)
	if err != nil || rows*n == 0 {
		return err
	}
	return d.start("layernorm", "ddp_layernorm_f32").
		tensors(a.Out, a.Sum, a.X, a.Residual, a.Gamma, a.Beta, a.Mean, a.Rstd).ints(rows, n).floats(a.Eps).rows(rows).run()
}

// LayerNormGrad computes the gradient of the normalised rows plus DSum.
func (d *Device) LayerNormGrad(a device.LayerNormGradArgs) error {
	const op = "layernorm gradient"
	rows, n, err := operand.LayerNormGrad(d.place, a)
	if err != nil || n == 0 {
		return err
	}
	if rows == 0 {
		if a.Accumulate {
			return nil
		}
		if err := d.Zero(a.DGamma); err != nil {
			return err
		}
		return d.Zero(a.DBeta)
	}
	parts := min(rows, 4*d.props.Multiprocessors)
	part, err := d.temp(op, 2*4*parts*n)
	if err != nil {
		return err
	}
	defer d.drop(part)
	betas := part + uintptr(4*parts*n)
	err = d.start(op, "ddp_layernorm_grad_f32").tensors(a.DX).addr(part, betas).tensors(a.DOut, a.DSum, a.X, a.Gamma, a.Mean, a.Rstd).
		ints(rows, n).grid(parts, 1).block(min(ceil(n, 32)*32, 256), 1).run()
	if err != nil {
		return err
	}
	if err := d.finishColumns(op, a.DGamma.Addr(), part, parts, n, a.Accumulate); err != nil {
		return err
	}
	return d.finishColumns(op, a.DBeta.Addr(), betas, parts, n, a.Accumulate)
}

const channelThreads = 512 // of the block that reduces a channel

// BatchNorm normalises each channel.
func (d *Device) BatchNorm(a device.BatchNormArgs) error {
	const op = "batchnorm"
	g, err := operand.BatchNorm(d.place, a)
	if err != nil || a.X.Len() == 0 {
		return err
	}
	var scratch uintptr
	statistic := func(t T, nth int) uintptr {
		if t != nil {
			return t.Addr()
		}
		return scratch + uintptr(4*nth*g.Channels)
	}
	if a.Mean == nil || !a.Training {
		if scratch, err = d.temp(op, 2*4*g.Channels); err != nil {
			return err
		}
		defer d.drop(scratch)
	}
	var mean, rstd uintptr
	if a.Training {
		mean, rstd = statistic(a.Mean, 0), statistic(a.Rstd, 1)
		err = d.start(op, "ddp_batchnorm_stats_f32").addr(mean, rstd).tensors(a.RunningMean, a.RunningVar, a.X).
			ints(g.Batch, g.Channels, g.Plane).floats(a.Eps, a.Momentum).grid(g.Channels, 1).block(channelThreads, 1).run()
	} else {
		mean, rstd = a.RunningMean.Addr(), statistic(nil, 1)
		err = d.start(op, "ddp_batchnorm_rstd_f32").addr(rstd).tensors(a.RunningVar).ints(g.Channels).floats(a.Eps).over(g.Channels).run()
	}
	if err != nil {
		return err
	}
	return d.start(op, "ddp_batchnorm_apply_f32").tensors(a.Out, a.X).addr(mean, rstd).tensors(a.Gamma, a.Beta).
		ints(g.Batch, g.Channels, g.Plane).over(a.X.Len()).run()
}

// BatchNormGrad is the backward of a training BatchNorm.
func (d *Device) BatchNormGrad(a device.BatchNormGradArgs) error {
	const op = "batchnorm gradient"
	g, err := operand.BatchNormGrad(d.place, a)
	if err != nil || g.Channels == 0 {
		return err
	}
	if a.X.Len() == 0 {
		if a.Accumulate {
			return nil
		}
		if err := d.Zero(a.DGamma); err != nil {
			return err
		}
		return d.Zero(a.DBeta)
	}
	sums, err := d.temp(op, 2*4*g.Channels)
	if err != nil {
		return err
	}
	defer d.drop(sums)
	along := sums + uintptr(4*g.Channels)
	err = d.start(op, "ddp_batchnorm_grad_sums_f32").addr(sums, along).tensors(a.DGamma, a.DBeta, a.DOut, a.X, a.Mean, a.Rstd).
		ints(g.Batch, g.Channels, g.Plane).flag(a.Accumulate).grid(g.Channels, 1).block(channelThreads, 1).run()
	if err != nil {
		return err
	}
	return d.start(op, "ddp_batchnorm_grad_f32").tensors(a.DX, a.DOut, a.X, a.Gamma, a.Mean, a.Rstd).addr(sums, along).
		ints(g.Batch, g.Channels, g.Plane).over(a.X.Len()).run()
}
