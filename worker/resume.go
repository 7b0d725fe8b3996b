package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/worker/checkpoint"
	"github.com/ddprun/ddprun/worker/ddp"
)

// resume takes up the newest whole checkpoint. Rank 0 reads it; the others get
// position and optimizer state from it (the parameters follow in ddp.New), so
// only rank 0 needs to see the folder.
func (r *rank) resume(ctx context.Context) error {
	var text []byte
	var err error
	if r.pg.Rank() == 0 {
		text, err = r.resumeHere()
	}
	if err := agree(ctx, r.pg, err); err != nil {
		return err
	}
	if text, err = collective.BroadcastBytes(ctx, r.pg, text, 0); err != nil || len(text) == 0 {
		return err
	}
	var s checkpoint.State
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("state of the checkpoint: %w", err)
	}
	r.at = position{step: s.Step, epoch: s.Epoch, consumed: s.Consumed}
	r.saved = s.Step
	r.opt.SetSteps(s.Updates)
	if err := r.planRest(); err != nil {
		return err
	}
	return r.shareOptimizer(ctx)
}

// resumeHere loads the checkpoint that the job names, or the newest, and
// returns its state as JSON; nil when there is none.
func (r *rank) resumeHere() ([]byte, error) {
	path, err := r.findCheckpoint()
	if err != nil || path == "" {
		return nil, err
	}
	c, err := checkpoint.Load(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.State.Optimizer != r.job.Optimizer.Type {
		err := fmt.Errorf("checkpoint %s was made with optimizer %s, the job has %s", path, c.State.Optimizer, r.job.Optimizer.Type)
		return nil, exitcode.With(err, exitcode.Checkpoint)
	}
	if err := loadTensors(r.dev, c.Model, r.modelTensors(), "checkpoint "+path); err != nil {
		return nil, err
	}
	if err := loadTensors(r.dev, c.Optimizer, r.opt.State(), "checkpoint "+path); err != nil {
		return nil, err
	}
	r.report.resumed = path
	r.logger().Info("resumed", zap.String("checkpoint", path), zap.Int("from_step", c.State.Step), zap.Int("epoch", c.State.Epoch))
	if c.State.JobDigest != r.job.Digest() {
		r.logger().Warn("the job differs from the one the checkpoint was made with in model, data or order of samples", zap.String("checkpoint", path))
	}
	return json.Marshal(c.State)
}

func (r *rank) findCheckpoint() (string, error) {
	switch resume := r.job.Checkpoint.Resume; resume {
	case "none":
		return "", nil
	case "auto":
		if !r.saves() && r.job.Checkpoint.Dir == "" {
			return "", nil
		}
		path, _, err := checkpoint.Latest(r.checkpointDir(), func(err error) { r.logger().Warn(err.Error()) })
		return path, err
	default:
		return resume, nil
	}
}

// shareOptimizer gives every rank rank 0's optimizer state.
func (r *rank) shareOptimizer(ctx context.Context) error {
	for _, t := range r.opt.Flat() {
		if err := r.pg.Broadcast(ddp.View(t), 0).Wait(ctx); err != nil {
			return fmt.Errorf("sharing %s: %w", t.Name, err)
		}
	}
	return nil
}
