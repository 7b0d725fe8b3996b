package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// SGD is one step of torch.optim.SGD (dampening 0) over all parameters.
func (d *Device) SGD(a device.SGDArgs) error {
	c := d.check("sgd")
	c.list("Grads", a.Grads, a.Params)
	if a.Mu != 0 {
		c.list("Momentum", a.Momentum, a.Params)
	} else if a.Nesterov {
		c.fail("Nesterov needs a momentum")
	}
	if c.err != nil {
		return c.err
	}
	k := simd.SGDArgs{LR: float64(a.LR), Momentum: float64(a.Mu), WeightDecay: float64(a.WeightDecay), Nesterov: a.Nesterov, First: a.First}
	for i, p := range a.Params {
		if a.Mu == 0 {
			simd.SGDPlain(floats(p), floats(a.Grads[i]), a.GradScale, k.LR, k.WeightDecay)
		} else {
			simd.SGD(floats(p), floats(a.Grads[i]), floats(a.Momentum[i]), a.GradScale, k)
		}
	}
	return nil
}

// Adam is one step of torch.optim.Adam, or AdamW when Decoupled.
func (d *Device) Adam(a device.AdamArgs) error {
	c := d.check("adam")
	c.list("Grads", a.Grads, a.Params)
	c.list("Moment1", a.Moment1, a.Params)
	c.list("Moment2", a.Moment2, a.Params)
	c.positive("Step", a.Step)
	if n := len(a.WeightDecay); n != 0 && n != len(a.Params) {
		c.fail("WeightDecay has %d numbers for %d parameters", n, len(a.Params))
	}
	if c.err != nil {
		return c.err
	}
	k := simd.AdamArgs{LR: float64(a.LR), Beta1: float64(a.Beta1), Beta2: float64(a.Beta2), Eps: float64(a.Eps), Step: a.Step}
	step := simd.Adam
	if a.Decoupled {
		step = simd.AdamW
	}
	for i, p := range a.Params {
		if len(a.WeightDecay) > 0 {
			k.WeightDecay = float64(a.WeightDecay[i])
		}
		step(floats(p), floats(a.Grads[i]), floats(a.Moment1[i]), floats(a.Moment2[i]), a.GradScale, k)
	}
	return nil
}

// SumSquares is the sum of the squares of all elements, in float64.
func (d *Device) SumSquares(ts []T) (float64, error) {
	c := d.check("sum of squares")
	for _, t := range ts {
		c.float("tensor", t)
	}
	if c.err != nil {
		return 0, c.err
	}
	var sum float64
	for _, t := range ts {
		sum += simd.SumSquares(floats(t))
	}
	return sum, nil
}

// list wants one float32 tensor of a parameter's size for each parameter.
func (c *check) list(role string, ts, params []T) {
	if len(ts) != len(params) {
		c.fail("%s has %d tensors for %d parameters", role, len(ts), len(params))
	}
	for i, p := range params {
		if c.err != nil {
			return
		}
		if c.float("parameter", p) && c.float(role, ts[i]) && ts[i].Len() != p.Len() {
			c.fail("%s of %s is %v, the parameter %v", role, p.Name, ts[i].Shape(), p.Shape())
		}
	}
}
