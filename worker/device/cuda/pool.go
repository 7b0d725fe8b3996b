//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// windows passes the parameters that README.md of kernels calls P.
func (c *call) windows(w operand.Windows) *call {
	return c.ints(w.Planes, w.Height, w.Width, w.Rows, w.Columns, w.Kernel, w.Stride)
}

// Pool takes the largest or the average element of each window.
func (d *Device) Pool(a device.PoolArgs) error {
	w, err := operand.Pool(d.place, a)
	if err != nil || a.Out.Len() == 0 {
		return err
	}
	if !a.Max {
		return d.start("pool", "ddp_avgpool_f32").tensors(a.Out, a.X).windows(w).over(a.Out.Len()).run()
	}
	return d.start("pool", "ddp_maxpool_f32").tensors(a.Out, a.Index, a.X).windows(w).over(a.Out.Len()).run()
}

// PoolGrad gives each input element the gradients of the windows that it was
// the answer of, or its part of those that it lies in.
func (d *Device) PoolGrad(a device.PoolGradArgs) error {
	const op = "pool gradient"
	w, err := operand.PoolGrad(d.place, a)
	if err != nil || a.DX.Len() == 0 {
		return err
	}
	if !a.Max {
		return d.start(op, "ddp_avgpool_grad_f32").tensors(a.DX, a.DOut).windows(w).over(a.DX.Len()).run()
	}
	return d.start(op, "ddp_maxpool_grad_f32").tensors(a.DX, a.DOut, a.Index).windows(w).
		addr(d.faults.addr).ints(d.faults.next(badPlace, a.Index, nil, w.Height*w.Width)).over(a.DX.Len()).run()
}
