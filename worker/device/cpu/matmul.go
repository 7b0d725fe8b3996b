package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// product is a checked matrix product: out [m n] from [m k] x [k n].
type product struct {
	device.MatMulArgs
	m, n, k int
}

// MatMul computes Out = act(A*B + Bias) + Beta*Out, or the product times an
// activation's derivative.
func (d *Device) MatMul(a device.MatMulArgs) error {
	c := d.check("matmul")
	p := c.matMul(a)
	if c.err != nil || p.m == 0 || p.n == 0 {
		return c.err
	}
	// The product is made where it is kept: Pre if that is wanted.
	dst := floats(a.Out)
	if a.Pre != nil {
		dst = floats(a.Pre)
	}
	beta := a.Beta
	if a.Bias != nil && beta == 0 {
		// OpenBLAS passes over its result for beta 0 too, so a bias put
		// there first costs nothing.
		fillRows(dst, floats(a.Bias))
		beta = 1
	}
	d.gemm(a.TransA, a.TransB, p.m, p.n, p.k, 1, floats(a.A), width(a.TransA, p.m, p.k), floats(a.B), width(a.TransB, p.k, p.n), beta, dst, p.n)
	if a.Bias != nil && a.Beta != 0 {
		simd.AddBias(dst, floats(a.Bias))
	}
	p.finish(dst)
	return d.failed(c.op)
}

// finish applies the activation, or the derivative, to the product in dst.
func (p *product) finish(dst []float32) {
	out := floats(p.Out)
	switch {
	case p.GradOf != device.Identity:
		activateGrad(p.GradOf, out, out, floats(p.GradAt))
	case p.Act != device.Identity || p.Pre != nil:
		activate(p.Act, out, dst)
	}
}

// fillRows repeats row over dst.
func fillRows(dst, row []float32) {
	for len(dst) > 0 {
		dst = dst[copy(dst, row):]
	}
}

// width is the row length in memory of op(X) [rows cols].
func width(trans bool, rows, cols int) int {
	if trans {
		return rows
	}
	return cols
}

func (c *check) matMul(a device.MatMulArgs) product {
	p := product{MatMulArgs: a}
	if c.float("Out", a.Out) && c.float("A", a.A) {
		p.m, p.n = fold(a.Out)
		rows, cols := fold(a.A)
		p.k = cols
		if a.TransA {
			p.k = rows
			c.matrix("A (transposed)", a.A, p.k, p.m)
		} else {
			c.matrix("A", a.A, p.m, p.k)
		}
	}
	if a.TransB {
		c.matrix("B (transposed)", a.B, p.n, p.k)
	} else {
		c.matrix("B", a.B, p.k, p.n)
	}
	c.optVector("Bias", a.Bias, p.n)
	c.optMatrix("Pre", a.Pre, p.m, p.n)
	c.optMatrix("GradAt", a.GradAt, p.m, p.n)
	c.matMulModes(a)
	return p
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
	c.apart("Out", a.Out, "A", a.A)
	c.apart("Out", a.Out, "B", a.B)
	c.apart("Pre", a.Pre, "A", a.A)
	c.apart("Pre", a.Pre, "B", a.B)
	c.apart("Pre", a.Pre, "Out", a.Out)
	c.apart("GradAt", a.GradAt, "Out", a.Out)
	c.apart("Bias", a.Bias, "Out", a.Out)
}
