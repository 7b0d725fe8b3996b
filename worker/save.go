package worker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/worker/checkpoint"
)

// checkpointDir is where this run's checkpoints are.
func (r *rank) checkpointDir() string {
	if dir := r.job.Checkpoint.Dir; dir != "" {
		return dir
	}
	return filepath.Join(r.cfg.Env.RunDir, "checkpoints")
}

// saves says whether the job keeps checkpoints at all.
func (r *rank) saves() bool {
	c := r.job.Checkpoint
	return c.EverySteps > 0 || c.EveryEpochs > 0
}

// save writes a checkpoint on rank 0; all ranks learn whether it is there.
func (r *rank) save(ctx context.Context) error {
	var err error
	if r.pg.Rank() == 0 {
		err = r.saveHere()
	}
	r.saved = r.at.step
	return agree(ctx, r.pg, err)
}

func (r *rank) saveHere() error {
	model, err := snapshot(r.dev, r.modelTensors())
	if err != nil {
		return err
	}
	slots, err := snapshot(r.dev, r.opt.State())
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(model, slots) {
		if at := firstNonFinite(t.Data); at >= 0 {
			return fmt.Errorf("step %d: element %d of %s is no finite number: training has diverged, and this state is not saved; lower optimizer.lr or set train.clip_grad_norm", r.at.step, at, t.Name)
		}
	}
	// What a resumed run would not repeat must be on disk before the checkpoint.
	r.report.flush()
	path, err := checkpoint.Save(r.checkpointDir(), checkpoint.Snapshot{Model: model, Optimizer: slots, State: checkpoint.State{
		Step: r.at.step, Epoch: r.at.epoch, Consumed: r.at.consumed, Updates: r.opt.Steps(),
		WorldSize: r.pg.Size(), BatchSize: r.job.Train.BatchSize, Seed: r.job.Sampler.Seed,
		JobDigest: r.job.Digest(), Optimizer: r.job.Optimizer.Type,
	}})
	if err != nil {
		return err
	}
	r.sayNow(path)
	if err := checkpoint.Prune(r.checkpointDir(), r.job.Checkpoint.Keep); err != nil {
		// Old ones that stay cost space, not work.
		r.logger().Warn("old checkpoints were not removed", zap.Error(err))
	}
	return nil
}

// openCheckpoints proves before the first step that the folder can be written
// to.
func (r *rank) openCheckpoints() error {
	if r.pg.Rank() != 0 || !r.saves() {
		return nil
	}
	if err := checkpoint.Prepare(r.checkpointDir()); err != nil {
		return fmt.Errorf("checkpoint.dir: %w", err)
	}
	return nil
}

// sayEvery keeps a run with many short epochs from filling the console.
const sayEvery = 10 * time.Second

// sayNow tells of a checkpoint, unless another was told of a moment ago; that of
// the last step is always told of.
func (r *rank) sayNow(path string) {
	if time.Since(r.said) < sayEvery && r.at.step < r.plan.total {
		return
	}
	r.said = time.Now()
	r.logger().Info("checkpoint saved", zap.String("path", path))
}
