package cpu

import (
	"math"

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
	for i, p := range a.Params {
		var momentum []float32
		if a.Mu != 0 {
			momentum = floats(a.Momentum[i])
		}
		sgdStep(floats(p), floats(a.Grads[i]), momentum, &a)
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
	correction1 := 1 - math.Pow(float64(a.Beta1), float64(a.Step))
	correction2 := 1 - math.Pow(float64(a.Beta2), float64(a.Step))
	k := adamConst{
		beta1: a.Beta1, beta2: a.Beta2, eps: a.Eps, gradScale: a.GradScale,
		stepSize: float32(float64(a.LR) / correction1),
		rootInv:  float32(1 / math.Sqrt(correction2)),
	}
	for i, p := range a.Params {
		k.keep, k.l2 = 1, 0
		if len(a.WeightDecay) > 0 {
			if a.Decoupled {
				k.keep = float32(1 - float64(a.LR)*float64(a.WeightDecay[i]))
			} else {
				k.l2 = a.WeightDecay[i]
			}
		}
		adamStep(floats(p), floats(a.Grads[i]), floats(a.Moment1[i]), floats(a.Moment2[i]), &k)
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
		sum += sumSquares(floats(t))
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
