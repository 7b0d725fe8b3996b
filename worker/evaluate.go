package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/sampler"
	"github.com/ddprun/ddprun/worker/data"
	"github.com/ddprun/ddprun/worker/nn"
)

// evalResult is an evaluation over all ranks; each sample counts once.
type evalResult struct {
	loss           float64 // mean over targets
	correct, total int64
}

// evaluate measures the model on the evaluation samples, shared among the
// ranks without padding: a rank that has none still joins the sum.
func (r *rank) evaluate(ctx context.Context, epoch int) error {
	if r.sets.Eval == nil || r.sets.Eval.Len() == 0 {
		return nil
	}
	if err := r.reducer.BroadcastBuffers(ctx); err != nil {
		return err
	}
	own, err := r.evaluateOwn(ctx)
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	sums := []float64{own.loss, float64(own.correct), float64(own.total)}
	if err := r.pg.AllReduce(collective.HostBuffer(sums), collective.Sum).Wait(ctx); err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	all := evalResult{loss: sums[0] / sums[2], correct: int64(sums[1]), total: int64(sums[2])}
	r.report.eval(r, epoch, all)
	return nil
}

// evaluateOwn sums loss and hits over this rank's share.
func (r *rank) evaluateOwn(ctx context.Context) (evalResult, error) {
	cfg := r.loaderConfig()
	cfg.DropLast = false
	loader := data.NewLoader(r.sets.Eval, cfg)
	defer loader.Close()
	var sum evalResult
	if err := loader.Start(sampler.EvalIndices(r.sets.Eval.Len(), r.pg.Size(), r.pg.Rank())); err != nil {
		return sum, err
	}
	for {
		batch, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
		err = r.evaluateBatch(batch, &sum)
		batch.Release()
		if err != nil {
			return sum, err
		}
	}
}

func (r *rank) evaluateBatch(batch *data.Batch, sum *evalResult) error {
	in, targets, err := r.upload(batch)
	if err != nil {
		return err
	}
	defer targets.Release()
	if in.Tokens != nil {
		defer in.Tokens.Release()
	}
	r.tape.Evaluate()
	defer r.tape.Reset()
	if err := errors.Join(r.dev.Zero(r.loss.Sum), r.dev.Zero(r.loss.Correct)); err != nil {
		return err
	}
	nn.CrossEntropy(r.tape, r.model.Forward(r.tape, in), targets, r.loss, 0)
	if err := r.tape.Err(); err != nil {
		return err
	}
	loss, correct := make([]float32, 1), make([]int32, 1)
	if err := errors.Join(r.dev.Download(bytesOf(loss), r.loss.Sum), r.dev.Download(bytesOf(correct), r.loss.Correct)); err != nil {
		return err
	}
	sum.loss += float64(loss[0])
	sum.correct += int64(correct[0])
	sum.total += int64(targets.Len())
	return nil
}
