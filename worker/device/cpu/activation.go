package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// Activate applies act to x; out may be x.
func (d *Device) Activate(out, x T, act device.Activation) error {
	c := d.check("activate")
	c.activation(act)
	c.float("x", x)
	c.like("out", out, x)
	if c.err == nil {
		activate(act, floats(out), floats(x))
	}
	return c.err
}

// ActivateGrad computes dx = dout * act'(at); dx may be dout.
func (d *Device) ActivateGrad(dx, dout, at T, act device.Activation) error {
	c := d.check("activation gradient")
	c.activation(act)
	c.float("dout", dout)
	c.like("dx", dx, dout)
	if act != device.Identity {
		c.like("at", at, dout)
	}
	if c.err == nil {
		activateGrad(act, floats(dx), floats(dout), floats(at))
	}
	return c.err
}

// activation refuses an unknown function.
func (c *check) activation(act device.Activation) {
	if act > device.GELUTanh {
		c.fail("activation number %d is not known", uint8(act))
	}
}

// activate sets out to act(x); out may be x.
func activate(act device.Activation, out, x []float32) {
	switch act {
	case device.Identity:
		copy(out, x)
	case device.ReLU:
		simd.ReLU(out, x)
	case device.GELU:
		simd.GELUErf(out, x)
	case device.GELUTanh:
		simd.GELU(out, x)
	}
}

// activateGrad sets dx to dout * act'(at); dx may be dout.
func activateGrad(act device.Activation, dx, dout, at []float32) {
	switch act {
	case device.Identity:
		copy(dx, dout)
	case device.ReLU:
		simd.ReLUBackward(dx, dout, at)
	case device.GELU:
		simd.GELUErfBackward(dx, dout, at)
	case device.GELUTanh:
		simd.GELUBackward(dx, dout, at)
	}
}
