package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Product is the size of a checked matrix product: out [M N] from [M K] x
// [K N].
type Product struct{ M, N, K int }

// MatMul checks the operands of Ops.MatMul.
func MatMul(p tensor.Place, a device.MatMulArgs) (Product, error) {
	c := check{place: p, op: "matmul"}
	s := c.product(a)
	c.optVector("Bias", a.Bias, s.N)
	c.optMatrix("Pre", a.Pre, s.M, s.N)
	c.optMatrix("GradAt", a.GradAt, s.M, s.N)
	c.matMulModes(a)
	c.matMulApart(a)
	return s, c.err
}

func (c *check) product(a device.MatMulArgs) (s Product) {
	if c.float("Out", a.Out) && c.float("A", a.A) {
		s.M, s.N = fold(a.Out)
		rows, cols := fold(a.A)
		s.K = cols
		if a.TransA {
			s.K = rows
			c.matrix("A (transposed)", a.A, s.K, s.M)
		} else {
			c.matrix("A", a.A, s.M, s.K)
		}
	}
	if a.TransB {
		c.matrix("B (transposed)", a.B, s.N, s.K)
	} else {
		c.matrix("B", a.B, s.K, s.N)
	}
	c.counts("a dimension", s.M, s.N, s.K)
	return s
}

// matMulModes refuses combinations that have no meaning.
func (c *check) matMulModes(a device.MatMulArgs) {
	c.activation(a.Act)
	c.activation(a.GradOf)
	switch {
	case a.Beta != 0 && (a.Act != device.Identity || a.GradOf != device.Identity || a.Pre != nil):
		c.fail("Beta is %g, must be 0 with an activation", a.Beta)
	case a.GradOf != device.Identity && (a.Act != device.Identity || a.Bias != nil || a.Pre != nil):
		c.fail("GradOf %s goes with no Bias, Act or Pre", a.GradOf)
	case a.GradOf != device.Identity && a.GradAt == nil:
		c.fail("operand GradAt is missing")
	}
}

func (c *check) matMulApart(a device.MatMulArgs) {
	c.apart("Out", a.Out, "A", a.A)
	c.apart("Out", a.Out, "B", a.B)
	c.apart("Pre", a.Pre, "A", a.A)
	c.apart("Pre", a.Pre, "B", a.B)
	c.apart("Pre", a.Pre, "Out", a.Out)
	c.apart("GradAt", a.GradAt, "Out", a.Out)
	c.apart("Bias", a.Bias, "Out", a.Out)
	c.apart("Bias", a.Bias, "Pre", a.Pre)
}
