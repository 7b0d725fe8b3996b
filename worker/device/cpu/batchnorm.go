package cpu

import (
	"math"

	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// channels is the geometry of a checked batch normalisation: element i of
// channel c of sample b lies at (b*channels+c)*plane + i.
type channels struct {
	batch, channels, plane int
}

// BatchNorm normalises each channel. In training the running statistics move
// towards the batch's: the mean, and the variance with n-1 in its
// denominator, as torch.nn.BatchNorm2d does.
func (d *Device) BatchNorm(a device.BatchNormArgs) error {
	c := d.check("batchnorm")
	g := c.batchNorm(a)
	if c.err != nil {
		return c.err
	}
	x, out := floats(a.X), floats(a.Out)
	for ch := range g.channels {
		mean, rstd := g.statistics(a, ch)
		scale := float64(floats(a.Gamma)[ch]) * rstd
		shift := float64(floats(a.Beta)[ch]) - mean*scale
		for b := range g.batch {
			at := (b*g.channels + ch) * g.plane
			simd.Fill(out[at:at+g.plane], float32(shift))
			simd.Axpy(out[at:at+g.plane], float32(scale), x[at:at+g.plane])
		}
	}
	return nil
}

// statistics is what channel ch is normalised by; in training it also keeps
// them and moves the running ones.
func (g channels) statistics(a device.BatchNormArgs, ch int) (mean, rstd float64) {
	if !a.Training {
		variance := float64(floats(a.RunningVar)[ch])
		return float64(floats(a.RunningMean)[ch]), 1 / math.Sqrt(variance+float64(a.Eps))
	}
	mean, variance := g.meanVar(floats(a.X), ch)
	rstd = 1 / math.Sqrt(variance+float64(a.Eps))
	if a.Mean != nil {
		floats(a.Mean)[ch], floats(a.Rstd)[ch] = float32(mean), float32(rstd)
	}
	if a.RunningMean != nil {
		n := float64(g.batch * g.plane)
		move(&floats(a.RunningMean)[ch], mean, a.Momentum)
		move(&floats(a.RunningVar)[ch], variance*n/(n-1), a.Momentum)
	}
	return mean, rstd
}

// move takes running a part of the way to now.
func move(running *float32, now float64, momentum float32) {
	m := float64(momentum)
	*running = float32((1-m)*float64(*running) + m*now)
}

// meanVar is the mean and the variance (denominator n) of channel ch: those of
// the samples, each exact to float32, joined in float64 (Chan et al., 1979).
func (g channels) meanVar(x []float32, ch int) (mean, variance float64) {
	var squares float64 // sum of squared deviations
	plane := float64(g.plane)
	for b := range g.batch {
		at := (b*g.channels + ch) * g.plane
		m, v := simd.MeanVar(x[at : at+g.plane])
		before := float64(b) * plane
		delta := float64(m) - mean
		mean += delta * plane / (before + plane)
		squares += float64(v)*plane + delta*delta*before*plane/(before+plane)
	}
	return mean, squares / (float64(g.batch) * plane)
}

// BatchNormGrad is the backward of a training BatchNorm.
func (d *Device) BatchNormGrad(a device.BatchNormGradArgs) error {
	c := d.check("batchnorm gradient")
	g := c.batchNormGrad(a)
	if c.err != nil {
		return c.err
	}
	for ch := range g.channels {
		g.channelGrad(a, ch)
	}
	return nil
}

func (g channels) channelGrad(a device.BatchNormGradArgs, ch int) {
	x, dout, dx := floats(a.X), floats(a.DOut), floats(a.DX)
	mean, rstd := float64(floats(a.Mean)[ch]), float64(floats(a.Rstd)[ch])
	var total, along float64 // sums of dout and of dout times the normalised x
	for b := range g.batch {
		at := (b*g.channels + ch) * g.plane
		centred := dx[at : at+g.plane] // not written yet, so free to use
		simd.Fill(centred, float32(-mean))
		simd.AddTo(centred, x[at:at+g.plane])
		total += float64(simd.Sum(dout[at : at+g.plane]))
		along += float64(simd.Dot(dout[at:at+g.plane], centred)) * rstd
	}
	n := float64(g.batch * g.plane)
	// dx = gamma*rstd * (dout - total/n - normalised*along/n)
	k := float64(floats(a.Gamma)[ch]) * rstd
	kx := -k * rstd * along / n
	shift := -k*total/n - kx*mean
	for b := range g.batch {
		at := (b*g.channels + ch) * g.plane
		simd.Fill(dx[at:at+g.plane], float32(shift))
		simd.Axpy(dx[at:at+g.plane], float32(k), dout[at:at+g.plane])
		simd.Axpy(dx[at:at+g.plane], float32(kx), x[at:at+g.plane])
	}
	if !a.Accumulate {
		floats(a.DGamma)[ch], floats(a.DBeta)[ch] = 0, 0
	}
	floats(a.DGamma)[ch] += float32(along)
	floats(a.DBeta)[ch] += float32(total)
}

// channelsOf wants [batch channels height width] and returns the geometry.
func (c *check) channelsOf(role string, t T) channels {
	if !c.isPlanes(role, t) {
		return channels{}
	}
	return channels{batch: t.Dim(0), channels: t.Dim(1), plane: t.Dim(2) * t.Dim(3)}
}

func (c *check) batchNorm(a device.BatchNormArgs) channels {
	g := c.channelsOf("X", a.X)
	if c.err == nil {
		c.planes("Out", a.Out, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
	}
	c.apart("Out", a.Out, "X", a.X)
	c.vector("Gamma", a.Gamma, g.channels)
	c.vector("Beta", a.Beta, g.channels)
	c.together("Mean", a.Mean, "Rstd", a.Rstd)
	c.optVector("Mean", a.Mean, g.channels)
	c.optVector("Rstd", a.Rstd, g.channels)
	c.together("RunningMean", a.RunningMean, "RunningVar", a.RunningVar)
	if a.Training {
		c.optVector("RunningMean", a.RunningMean, g.channels)
		c.optVector("RunningVar", a.RunningVar, g.channels)
		if c.err == nil && g.batch*g.plane < 2 {
			c.fail("X %s is %v: training needs more than one value per channel", a.X.Name, a.X.Shape())
		}
		return g
	}
	c.vector("RunningMean", a.RunningMean, g.channels)
	c.vector("RunningVar", a.RunningVar, g.channels)
	return g
}

func (c *check) batchNormGrad(a device.BatchNormGradArgs) channels {
	g := c.channelsOf("X", a.X)
	if c.err == nil {
		c.planes("DOut", a.DOut, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
		c.planes("DX", a.DX, a.X.Dim(0), a.X.Dim(1), a.X.Dim(2), a.X.Dim(3))
	}
	c.vector("Gamma", a.Gamma, g.channels)
	c.vector("Mean", a.Mean, g.channels)
	c.vector("Rstd", a.Rstd, g.channels)
	c.vector("DGamma", a.DGamma, g.channels)
	c.vector("DBeta", a.DBeta, g.channels)
	c.apart("DX", a.DX, "X", a.X)
	c.apart("DX", a.DX, "DOut", a.DOut)
	return g
}
