package nn

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Model maps a batch to logits.
type Model interface {
	// State is the model's parameters and buffers.
	State() *Parameters
	// Forward returns the logits, one row for each target of the batch.
	Forward(t *Tape, in Input) *Var
}

// Input is one batch on the device: either X or Tokens.
type Input struct {
	X      *tensor.Tensor // float32 [samples features...]
	Tokens *tensor.Tensor // int32 [samples*length]
	N      int            // samples
	Length int            // tokens of a sample
}

// Source is what a model must know of the data it is built for.
type Source struct {
	Features []int // shape of a float32 sample; nil for tokens
	Length   int   // tokens of a sample; 0 for features
}

// Build makes the model of a job on d, with its starting values drawn from the
// job's seed, and the number of classes its logits have. Layers that do not
// fit together are an error that names the layer and both shapes.
func Build(m *job.Model, src Source, d device.Device) (Model, int, error) {
	ps := &Parameters{}
	var model Model
	var classes int
	var err error
	switch m.Type {
	case "sequential":
		model, classes, err = newSequential(ps, m.Layers, src)
	case "gpt2":
		model, classes, err = newGPT2(ps, m, src)
	default:
		err = fmt.Errorf("model.type: %s is not available", m.Type)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := ps.place(d); err != nil {
		return nil, 0, err
	}
	return model, classes, ps.Reset(d, m.Init.Seed)
}
