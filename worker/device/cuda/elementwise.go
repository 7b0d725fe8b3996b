//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// BiasGrad makes dbias the sum of dout's rows, or adds it.
func (d *Device) BiasGrad(dbias, dout T, accumulate bool) error {
	rows, n, err := operand.BiasGrad(d.place, dbias, dout)
	if err != nil || n == 0 {
		return err
	}
	if rows == 0 {
		if accumulate {
			return nil
		}
		return d.Zero(dbias)
	}
	return d.columnSums("bias gradient", dbias.Addr(), dout.Addr(), rows, n, accumulate)
}

// columnSums adds up rows in two stages: parts of the rows each by itself,
// then the parts in order.
func (d *Device) columnSums(op string, out, x uintptr, rows, n int, accumulate bool) error {
	columns := ceil(n, 32)
	parts := min(max(ceil(4*d.props.Multiprocessors, columns), 1), ceil(rows, 32))
	sum := func(to uintptr, parts int) error {
		return d.start(op, "ddp_colsum_f32").addr(to, x).long(rows).ints(n).grid(columns, parts).block(32, 8).run()
	}
	if parts == 1 && !accumulate {
		return sum(out, 1)
	}
	part, err := d.temp(op, 4*parts*n)
	if err != nil {
		return err
	}
	defer d.drop(part)
	if err := sum(part, parts); err != nil {
		return err
	}
	return d.finishColumns(op, out, part, parts, n, accumulate)
}

// finishColumns adds the parts up.
func (d *Device) finishColumns(op string, out, part uintptr, parts, n int, accumulate bool) error {
	return d.start(op, "ddp_colsum_finish_f32").addr(out, part).ints(parts, n).flag(accumulate).grid(ceil(n, 256), 1).run()
}

// Activate applies act to x; out may be x.
func (d *Device) Activate(out, x T, act device.Activation) error {
	if err := operand.Activate(d.place, out, x, act); err != nil || x.Len() == 0 {
		return err
	}
	return d.start("activate", "ddp_activate_f32").tensors(out, x).long(x.Len()).ints(int(act)).over(x.Len()).run()
}

// ActivateGrad computes dx = dout * act'(at); dx may be dout.
func (d *Device) ActivateGrad(dx, dout, at T, act device.Activation) error {
	if err := operand.ActivateGrad(d.place, dx, dout, at, act); err != nil || dx.Len() == 0 {
		return err
	}
	if act == device.Identity {
		at = nil // nobody has checked it
	}
	return d.start("activation gradient", "ddp_activate_grad_f32").tensors(dx, dout, at).long(dx.Len()).ints(int(act)).over(dx.Len()).run()
}

// Add computes out = a + b; out may be a or b.
func (d *Device) Add(out, a, b T) error {
	if err := operand.Add(d.place, out, a, b); err != nil || out.Len() == 0 {
		return err
	}
	return d.start("add", "ddp_add_f32").tensors(out, a, b).long(out.Len()).over(out.Len()).run()
}

// Scale multiplies t by f.
func (d *Device) Scale(t T, f float32) error {
	if err := operand.Scale(d.place, t); err != nil || t.Len() == 0 {
		return err
	}
	return d.start("scale", "ddp_scale_f32").tensors(t).long(t.Len()).floats(f).over(t.Len()).run()
}

// Dropout drops elements and scales the rest; the mask is the CPU device's.
func (d *Device) Dropout(a device.DropoutArgs) error {
	if err := operand.Dropout(d.place, a); err != nil || a.X.Len() == 0 {
		return err
	}
	if a.P == 1 {
		return d.Zero(a.Out)
	}
	limit := uint32(float64(a.P) * (1 << 32))
	return d.start("dropout", "ddp_dropout_f32").tensors(a.Out, a.X).long(a.X.Len()).word(limit).floats(1 / (1 - a.P)).
		long64(a.Seed).long64(a.Offset).over(a.X.Len()).run()
}
