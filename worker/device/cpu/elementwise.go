package cpu

import "github.com/ddprun/ddprun/internal/simd"

// BiasGrad makes dbias the sum of dout's rows, or adds it.
func (d *Device) BiasGrad(dbias, dout T, accumulate bool) error {
	c := d.check("bias gradient")
	if c.float("dout", dout) {
		_, n := fold(dout)
		c.vector("dbias", dbias, n)
	}
	if c.err == nil {
		if !accumulate {
			clear(floats(dbias))
		}
		simd.ColSumTo(floats(dbias), floats(dout))
	}
	return c.err
}

// Add computes out = a + b; out may be a or b.
func (d *Device) Add(out, a, b T) error {
	c := d.check("add")
	c.float("a", a)
	c.like("b", b, a)
	c.like("out", out, a)
	if c.err != nil {
		return c.err
	}
	simd.Add(floats(out), floats(a), floats(b))
	return nil
}

// Scale multiplies t by f.
func (d *Device) Scale(t T, f float32) error {
	c := d.check("scale")
	if c.float("tensor", t) {
		simd.Scale(floats(t), f)
	}
	return c.err
}
