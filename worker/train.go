package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ddprun/ddprun/worker/data"
)

// position is how far the run has come: what a checkpoint must know to go on
// exactly here.
type position struct {
	step     int // updates made
	epoch    int
	consumed int // samples of this epoch that all ranks together have taken
}

// train runs epochs until the planned number of steps is made.
func (r *rank) train(ctx context.Context) error {
	r.extra = make([]float32, r.pg.Size())
	loader := data.NewLoader(r.sets.Train, r.loaderConfig())
	defer loader.Close()
	for r.at.step < r.plan.total {
		if err := r.trainEpoch(ctx, loader); err != nil {
			return err
		}
	}
	return r.finishTraining(ctx)
}

// loaderConfig leaves a read less time than a collective has, so that a hung
// read is named and not the collective that waits for it.
func (r *rank) loaderConfig() data.LoaderConfig {
	l := r.job.Loader
	return data.LoaderConfig{
		BatchSize: r.job.Train.BatchSize, Workers: l.Workers, PrefetchFactor: l.PrefetchFactor, DropLast: l.DropLast,
		Timeout: r.cfg.Env.Timeout * 9 / 10,
	}
}

// trainEpoch goes through what is left of the present epoch.
func (r *rank) trainEpoch(ctx context.Context, loader *data.Loader) error {
	order := r.order.Remaining(r.at.epoch, r.at.consumed)
	if err := loader.Start(order); err != nil {
		return err
	}
	left := batchesIn(len(order), r.job.Train.BatchSize, r.job.Loader.DropLast)
	if left == 0 {
		// Resumed with another number of ranks, for whom what is left of the
		// epoch makes no batch.
		return r.afterStep(ctx, true)
	}
	for left > 0 && r.at.step < r.plan.total {
		micros := min(r.job.Train.Accumulate, left)
		s, err := r.step(ctx, loader, micros)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the loader ended %d batches before the epoch", left)
			}
			return err
		}
		left -= micros
		if err := r.trace.flush(); err != nil {
			return err
		}
		r.at.consumed += s.samples * r.pg.Size()
		r.report.step(r, s)
		r.at.step++
		if err := r.afterStep(ctx, left == 0); err != nil {
			return err
		}
	}
	return nil
}

// afterStep is what is due between two steps. At the end of an epoch the
// position moves on first, so that a checkpoint begins the next one.
func (r *rank) afterStep(ctx context.Context, epochDone bool) error {
	epoch := r.at.epoch
	if epochDone {
		r.at.epoch, r.at.consumed = r.at.epoch+1, 0
	}
	t, c := r.job.Train, r.job.Checkpoint
	evaluate := due(t.EvalEvery, r.at.step)
	if t.Steps == 0 {
		evaluate = epochDone && due(t.EvalEvery, epoch+1)
	}
	if evaluate || r.at.step == r.plan.total {
		if err := r.evaluate(ctx, epoch); err != nil {
			return err
		}
	}
	if due(c.EverySteps, r.at.step) || epochDone && due(c.EveryEpochs, epoch+1) {
		return r.save(ctx)
	}
	return nil
}

// due says whether count is a multiple of every; 0 means never.
func due(every, count int) bool { return every > 0 && count%every == 0 }

// finishTraining makes sure that the last state is kept where checkpoints are
// kept at all.
func (r *rank) finishTraining(ctx context.Context) error {
	c := r.job.Checkpoint
	if r.saved == r.at.step || c.EverySteps == 0 && c.EveryEpochs == 0 {
		return nil
	}
	return r.save(ctx)
}
