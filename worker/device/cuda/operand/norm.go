package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// LayerNorm returns the folded shape of X.
func LayerNorm(p tensor.Place, a device.LayerNormArgs) (rows, n int, err error) {
	c := check{place: p, op: "layernorm"}
	if c.float("X", a.X) {
		rows, n = fold(a.X)
	}
	c.matrix("Out", a.Out, rows, n)
	c.optMatrix("Residual", a.Residual, rows, n)
	if a.Residual != nil {
		c.matrix("Sum", a.Sum, rows, n)
		c.apart("Out", a.Out, "Sum", a.Sum)
		c.sameOrApart("Sum", a.Sum, "X", a.X)
		c.sameOrApart("Sum", a.Sum, "Residual", a.Residual)
	} else if a.Sum != nil {
		c.fail("Sum %s without a Residual", a.Sum.Name)
	}
	c.vector("Gamma", a.Gamma, n)
	c.vector("Beta", a.Beta, n)
	c.optVector("Mean", a.Mean, rows)
	c.optVector("Rstd", a.Rstd, rows)
	c.together("Mean", a.Mean, "Rstd", a.Rstd)
	c.sameOrApart("Out", a.Out, "X", a.X)
	c.sameOrApart("Out", a.Out, "Residual", a.Residual)
	c.counts("a dimension", rows, n)
	return rows, n, c.err
}

// LayerNormGrad returns the folded shape of X.
func LayerNormGrad(p tensor.Place, a device.LayerNormGradArgs) (rows, n int, err error) {
	c := check{place: p, op: "layernorm gradient"}
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
	c.sameOrApart("DX", a.DX, "DOut", a.DOut)
	c.sameOrApart("DX", a.DX, "DSum", a.DSum)
	c.apart("DGamma", a.DGamma, "DBeta", a.DBeta)
	c.counts("a dimension", rows, n)
	return rows, n, c.err
}

// Channels is the geometry of a checked batch normalisation: [Batch Channels
// Plane].
type Channels struct{ Batch, Channels, Plane int }

// channels wants [batch channels height width].
func (c *check) channels(role string, t T) (g Channels) {
	if c.isPlanes(role, t) {
		g = Channels{t.Dim(0), t.Dim(1), t.Dim(2) * t.Dim(3)}
		c.counts("a dimension", g.Batch, g.Channels, g.Plane)
	}
	return g
}

// BatchNorm checks the operands of Ops.BatchNorm.
func BatchNorm(p tensor.Place, a device.BatchNormArgs) (Channels, error) {
	c := check{place: p, op: "batchnorm"}
	g := c.channels("X", a.X)
	if c.err == nil {
		c.planes("Out", a.Out, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
	}
	c.apart("Out", a.Out, "X", a.X)
	c.vector("Gamma", a.Gamma, g.Channels)
	c.vector("Beta", a.Beta, g.Channels)
	c.together("Mean", a.Mean, "Rstd", a.Rstd)
	c.optVector("Mean", a.Mean, g.Channels)
	c.optVector("Rstd", a.Rstd, g.Channels)
	c.together("RunningMean", a.RunningMean, "RunningVar", a.RunningVar)
	if !a.Training {
		c.vector("RunningMean", a.RunningMean, g.Channels)
		c.vector("RunningVar", a.RunningVar, g.Channels)
		return g, c.err
	}
	c.optVector("RunningMean", a.RunningMean, g.Channels)
	c.optVector("RunningVar", a.RunningVar, g.Channels)
	if c.err == nil && g.Batch*g.Plane < 2 {
		c.fail("X %s is %v: training needs more than one value per channel", a.X.Name, a.X.Shape())
	}
	return g, c.err
}

// BatchNormGrad checks the operands of Ops.BatchNormGrad.
func BatchNormGrad(p tensor.Place, a device.BatchNormGradArgs) (Channels, error) {
	c := check{place: p, op: "batchnorm gradient"}
	g := c.channels("X", a.X)
	if c.err == nil {
		c.planes("DOut", a.DOut, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
		c.planes("DX", a.DX, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
	}
	c.vector("Gamma", a.Gamma, g.Channels)
	c.vector("Mean", a.Mean, g.Channels)
	c.vector("Rstd", a.Rstd, g.Channels)
	c.vector("DGamma", a.DGamma, g.Channels)
	c.vector("DBeta", a.DBeta, g.Channels)
	c.apart("DX", a.DX, "X", a.X)
	c.apart("DX", a.DX, "DOut", a.DOut)
	return g, c.err
}
