package nn

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Loss is where a pass leaves its results: sums over all rows since they were
// last zeroed.
type Loss struct {
	Sum     *tensor.Tensor // float32 [1]: of -log p[target]
	Correct *tensor.Tensor // int32 [1]: rows whose largest logit is the target's; nil: not counted
}

// CrossEntropy adds the loss of logits [rows classes] against int32 targets
// [rows] to loss. While training, the gradient that flows back is that of
// scale * sum over rows.
func CrossEntropy(t *Tape, logits *Var, targets *tensor.Tensor, loss Loss, scale float32) {
	if t.failed() {
		return
	}
	const name = "cross_entropy"
	args := device.CrossEntropyArgs{Logits: logits.Value, Targets: targets, Loss: loss.Sum, Correct: loss.Correct, Scale: scale}
	if t.record && logits.needs {
		args.DLogits = t.lossGradient(name, logits)
		if t.failed() {
			return
		}
	}
	t.check(name, t.dev.CrossEntropy(args))
	if args.DLogits == nil {
		return
	}
	// The gradient is made in forward, beside the logits' own pass over
	// memory; backward only hands it on.
	logits.uses++
	grad := &Var{grad: args.DLogits}
	t.nodes = append(t.nodes, node{name: name, outs: []*Var{grad}, back: func() {
		d, _ := grad.take()
		t.give(logits, d)
	}})
}

// lossGradient is where the gradient of the logits goes: over the logits
// themselves unless backward still has to read them.
func (t *Tape) lossGradient(name string, logits *Var) *tensor.Tensor {
	if !logits.kept && logits.uses == 0 && !logits.Value.Shared() {
		return logits.Value.Retain()
	}
	return t.alloc(name, logits.Value.Shape()...)
}
