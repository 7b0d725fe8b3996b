package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// SGD checks the operands of Ops.SGD.
func SGD(p tensor.Place, a device.SGDArgs) error {
	c := check{place: p, op: "sgd"}
	c.list("Grads", a.Grads, a.Params)
	if a.Mu != 0 {
		c.list("Momentum", a.Momentum, a.Params)
	} else if a.Nesterov {
		c.fail("Nesterov needs a momentum")
	}
	return c.err
}

// Adam checks the operands of Ops.Adam.
func Adam(p tensor.Place, a device.AdamArgs) error {
	c := check{place: p, op: "adam"}
	c.list("Grads", a.Grads, a.Params)
	c.list("Moment1", a.Moment1, a.Params)
	c.list("Moment2", a.Moment2, a.Params)
	c.positive("Step", a.Step)
	if n := len(a.WeightDecay); n != 0 && n != len(a.Params) {
		c.fail("WeightDecay has %d numbers for %d parameters", n, len(a.Params))
	}
	return c.err
}

// Floats wants float32 tensors.
func Floats(p tensor.Place, op string, ts []T) error {
	c := check{place: p, op: op}
	for _, t := range ts {
		c.float("tensor", t)
	}
	return c.err
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
