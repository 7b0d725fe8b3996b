package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// LayerNorm normalises each row, after adding the residual when it is there.
func (d *Device) LayerNorm(a device.LayerNormArgs) error {
	c := d.check("layernorm")
	rows, n := c.layerNorm(a)
	if c.err != nil || rows*n == 0 {
		return c.err
	}
	x, out := floats(a.X), floats(a.Out)
	residual, sum := floats(a.Residual), floats(a.Sum)
	gamma, beta := floats(a.Gamma), floats(a.Beta)
	mean, rstd := floats(a.Mean), floats(a.Rstd)
	for r := range rows {
		row := x[r*n : (r+1)*n]
		if residual != nil {
			s := sum[r*n : (r+1)*n]
			simd.Add(s, row, residual[r*n:(r+1)*n])
			row = s
		}
		mu, inv := simd.LayerNormRow(out[r*n:(r+1)*n], row, gamma, beta, a.Eps)
		if mean != nil {
			mean[r], rstd[r] = mu, inv
		}
	}
	return nil
}

func (c *check) layerNorm(a device.LayerNormArgs) (rows, n int) {
	if c.float("X", a.X) {
		rows, n = fold(a.X)
	}
	c.matrix("Out", a.Out, rows, n)
	c.optMatrix("Residual", a.Residual, rows, n)
	if a.Residual != nil {
		c.matrix("Sum", a.Sum, rows, n)
		c.apart("Out", a.Out, "Sum", a.Sum)
	} else if a.Sum != nil {
		c.fail("Sum %s without a Residual", a.Sum.Name)
	}
	c.vector("Gamma", a.Gamma, n)
	c.vector("Beta", a.Beta, n)
	c.optVector("Mean", a.Mean, rows)
	c.optVector("Rstd", a.Rstd, rows)
	c.together("Mean", a.Mean, "Rstd", a.Rstd)
	return rows, n
}

// LayerNormGrad computes the gradient of the normalised rows plus DSum.
func (d *Device) LayerNormGrad(a device.LayerNormGradArgs) error {
	c := d.check("layernorm gradient")
	rows, n := c.layerNormGrad(a)
	if c.err != nil {
		return c.err
	}
	dgamma, dbeta := floats(a.DGamma), floats(a.DBeta)
	if !a.Accumulate {
		clear(dgamma)
		clear(dbeta)
	}
	x, dout, dx, dsum := floats(a.X), floats(a.DOut), floats(a.DX), floats(a.DSum)
	gamma, mean, rstd := floats(a.Gamma), floats(a.Mean), floats(a.Rstd)
	for r := range rows {
		lo, hi := r*n, (r+1)*n
		if dsum != nil {
			copy(dx[lo:hi], dsum[lo:hi])
		}
		simd.LayerNormBackwardRow(dx[lo:hi], dout[lo:hi], x[lo:hi], mean[r], rstd[r], gamma, dgamma, dbeta, dsum != nil)
	}
	return nil
}

func (c *check) layerNormGrad(a device.LayerNormGradArgs) (rows, n int) {
	if c.float("X", a.X) {
		rows, n = fold(a.X)
	}
	c.matrix("DX", a.DX, rows, n)
	c.matrix("DOut", a.DOut, rows, n)
	c.optMatrix("DSum", a.DSum, rows, n)
	c.vector("Gamma", a.Gamma, n)
	c.vector("Mean", a.Mean, rows)
	c.vector("Rstd", a.Rstd, rows)
	c.vector("DGamma", a.DGamma, n)
	c.vector("DBeta", a.DBeta, n)
	c.apart("DX", a.DX, "X", a.X)
	if a.DSum != nil {
		c.apart("DX", a.DX, "DOut", a.DOut)
	}
	return rows, n
}

// together wants both operands or neither.
func (c *check) together(role string, t T, otherRole string, other T) {
	if (t == nil) != (other == nil) {
		c.fail("%s and %s go together, one is missing", role, otherRole)
	}
}
