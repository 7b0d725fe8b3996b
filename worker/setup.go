package worker

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/sampler"
	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
	"github.com/ddprun/ddprun/worker/data"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/optim"
	"github.com/ddprun/ddprun/worker/tensor"
)

// openData opens the samples.
func (r *rank) openData() (err error) {
	r.sets, err = data.Open(r.job.Data, r.cfg.Env.Rank)
	return err
}

// buildModel makes the model, its starting values and the optimizer.
func (r *rank) buildModel() error {
	spec := r.sets.Train.Spec()
	src := nn.Source{Features: spec.Features, Length: spec.Tokens}
	model, classes, err := nn.Build(r.job.Model, src, r.dev)
	if err != nil {
		return exitcode.With(err, exitcode.Usage)
	}
	r.model, r.classes, r.tape = model, classes, nn.NewTape(r.dev)
	if err := r.sets.CheckClasses(classes); err != nil {
		return err
	}
	if from := r.job.Model.Init.From; from != "" {
		if err := r.loadInit(from); err != nil {
			return err
		}
	}
	if r.opt, err = optim.New(r.job.Optimizer, r.dev, model.State().Params); err != nil {
		return exitcode.With(err, exitcode.Usage)
	}
	if r.loss.Sum, err = r.zeroed("loss", tensor.Float32); err != nil {
		return err
	}
	r.loss.Correct, err = r.zeroed("correct", tensor.Int32)
	return err
}

// loadInit takes starting values from a file of tensors named as in a PyTorch
// state_dict.
func (r *rank) loadInit(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return exitcode.With(fmt.Errorf("model.init.from: %w", err), exitcode.Checkpoint)
	}
	defer f.Close()
	return loadTensors(r.dev, f, r.modelTensors(), "model.init.from "+path)
}

// plan is how many steps there are.
type plan struct {
	batches       int // of a rank in a whole epoch
	stepsPerEpoch int
	total         int // steps of the whole run
}

// planSteps makes the sampler and counts the steps.
func (r *rank) planSteps() error {
	s, err := sampler.New(sampler.Config{
		Length: r.sets.Train.Len(), WorldSize: r.pg.Size(), Rank: r.pg.Rank(),
		Shuffle: r.job.Sampler.Shuffle, Seed: r.job.Sampler.Seed, DropLast: r.job.Sampler.DropLast,
	})
	if err != nil {
		return err
	}
	if err := s.Check(r.job.Train.BatchSize, r.job.Loader.DropLast); err != nil {
		return err
	}
	r.order = s
	r.plan = planFor(r.job, s.NumSamples())
	return nil
}

// planFor counts steps for a rank that has n samples an epoch.
func planFor(j *job.Job, n int) plan {
	p := plan{batches: batchesIn(n, j.Train.BatchSize, j.Loader.DropLast)}
	p.stepsPerEpoch = (p.batches + j.Train.Accumulate - 1) / j.Train.Accumulate
	p.total = j.Train.Steps
	if p.total == 0 {
		p.total = j.Train.Epochs * p.stepsPerEpoch
	}
	return p
}

// batchesIn is the number of batches that n samples make.
func batchesIn(n, size int, dropLast bool) int {
	if dropLast {
		return n / size
	}
	return (n + size - 1) / size
}
