package simd

import "math"

// SGDArgs are the settings of torch.optim.SGD for one step.
type SGDArgs struct {
	LR, Momentum, Dampening, WeightDecay float64

	Nesterov bool
	First    bool // first step: the momentum buffer becomes the gradient, whatever it held
}

// SGD is one step of torch.optim.SGD with momentum: p are parameters, g their
// gradients (multiplied by gscale before anything else), m the momentum
// buffer.
func SGD(p, g, m []float32, gscale float32, a SGDArgs) {
	n := min(len(p), len(g), len(m))
	p, g, m = p[:n], g[:n], m[:n]
	damp := float32(1 - a.Dampening)
	if a.First {
		// PyTorch copies the gradient into the buffer, without dampening.
		fill(m, 0)
		damp = 1
	}
	var useGrad, useMom float32 = 0, 1
	if a.Nesterov {
		useGrad, useMom = 1, float32(a.Momentum)
	}
	sgdMomentum(p, g, m, gscale, float32(a.LR), float32(a.WeightDecay), float32(a.Momentum), damp, useGrad, useMom)
}

// SGDPlain is one step without momentum: p -= lr·(gscale·g + weightDecay·p).
func SGDPlain(p, g []float32, gscale float32, lr, weightDecay float64) {
	n := min(len(p), len(g))
	sgdPlain(p[:n], g[:n], gscale, float32(lr), float32(weightDecay))
}

// AdamArgs are the settings of torch.optim.Adam and AdamW for one step.
type AdamArgs struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64

	Step int // 1 at the first step
}

// AdamW is one step of torch.optim.AdamW: the parameters shrink by
// LR·WeightDecay, apart from the gradient. g is multiplied by gscale first; m
// and v are the moments, zero at the start.
func AdamW(p, g, m, v []float32, gscale float32, a AdamArgs) {
	adamStep(p, g, m, v, gscale, 0, float32(1-a.LR*a.WeightDecay), a)
}

// Adam is one step of torch.optim.Adam: WeightDecay·p is added to the
// (scaled) gradient.
func Adam(p, g, m, v []float32, gscale float32, a AdamArgs) {
	adamStep(p, g, m, v, gscale, float32(a.WeightDecay), 1, a)
}

func adamStep(p, g, m, v []float32, gscale, l2, decay float32, a AdamArgs) {
	n := min(len(p), len(g), len(m), len(v))
	c1 := 1 - math.Pow(a.Beta1, float64(a.Step))
	c2 := 1 - math.Pow(a.Beta2, float64(a.Step))
	adam(p[:n], g[:n], m[:n], v[:n], gscale, l2, decay,
		float32(a.Beta1), float32(1-a.Beta1), float32(a.Beta2), float32(1-a.Beta2),
		float32(1/math.Sqrt(c2)), float32(a.Eps), float32(a.LR/c1))
}
