package optim

import (
	"math"

	"github.com/ddprun/ddprun/internal/job"
)

// LR is the learning rate of step (0 first) of total steps. During the warm-up
// it rises linearly: base*(step+1)/warmup. After it:
//
//	constant  base
//	linear    falls in a line, from base at the first step after the warm-up to
//	          MinLR at step total, the one after the last
//	cosine    MinLR + (base-MinLR)*(1+cos(pi*x))/2, x from 0 to 1 over the rest
//	step      base*Gamma^k after k times StepSize steps
func LR(s job.Schedule, base float64, step, total int) float64 {
	if step < s.WarmupSteps {
		return base * float64(step+1) / float64(s.WarmupSteps)
	}
	after := step - s.WarmupSteps
	x := 1.0
	if rest := total - s.WarmupSteps; rest > 0 {
		x = min(float64(after)/float64(rest), 1)
	}
	switch s.Type {
	case "linear":
		return base + (s.MinLR-base)*x
	case "cosine":
		return s.MinLR + (base-s.MinLR)*(1+math.Cos(math.Pi*x))/2
	case "step":
		return max(base*math.Pow(s.Gamma, float64(after/s.StepSize)), s.MinLR)
	}
	return base
}

// ClipScale is the factor that brings a gradient of the given norm to at most
// limit, as torch.nn.utils.clip_grad_norm_ computes it. A limit of 0 means no
// clipping. A norm that is not finite gives it back as the factor 1: what to do
// then is the loop's decision.
func ClipScale(norm, limit float64) float64 {
	if limit <= 0 || math.IsNaN(norm) || math.IsInf(norm, 0) {
		return 1
	}
	return min(limit/(norm+1e-6), 1)
}
