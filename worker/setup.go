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
	s, err := sampler.New(r.samplerConfig(r.sets.Train.Len()))
	if err != nil {
		return err
	}
	if err := s.Check(r.job.Train.BatchSize, r.job.Loader.DropLast); err != nil {
		if path := r.job.Data.Path; path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return err
	}
	r.order = s
	r.plan = planFor(r.job, s.NumSamples())
	return nil
}

func (r *rank) samplerConfig(length int) sampler.Config {
	s := r.job.Sampler
	return sampler.Config{
		Length: length, WorldSize: r.pg.Size(), Rank: r.pg.Rank(),
		Shuffle: s.Shuffle, Seed: s.Seed, DropLast: s.DropLast,
	}
}

// planRest counts again what is to be done after a resume: with another number
// of ranks or another batch size the epochs that are left have another number
// of steps.
func (r *rank) planRest() error {
	rest, err := sampler.New(r.samplerConfig(max(r.sets.Train.Len()-r.at.consumed, 0)))
	if err != nil {
		return err
	}
	r.plan.total = r.plan.after(r.job, r.at, rest.NumSamples())
	return nil
}

// after is the number of steps of the whole run for a run that is at a
// position with rest samples of a rank left in its epoch.
func (p plan) after(j *job.Job, at position, rest int) int {
	t := j.Train
	switch {
	case t.Steps > 0:
		return t.Steps
	case at.epoch >= t.Epochs:
		return at.step
	}
	return at.step + stepsIn(batchesIn(rest, t.BatchSize, j.Loader.DropLast), t.Accumulate) + (t.Epochs-at.epoch-1)*p.stepsPerEpoch
}

// planFor counts steps for a rank that has n samples an epoch.
func planFor(j *job.Job, n int) plan {
	p := plan{batches: batchesIn(n, j.Train.BatchSize, j.Loader.DropLast)}
	p.stepsPerEpoch = stepsIn(p.batches, j.Train.Accumulate)
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

// stepsIn is the number of steps that batches make; the last may have fewer.
func stepsIn(batches, accumulate int) int { return (batches + accumulate - 1) / accumulate }
