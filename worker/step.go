package worker

import (
	"context"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/worker/data"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/optim"
	"github.com/ddprun/ddprun/worker/tensor"
)

// stepStats is what one step was like on this rank.
type stepStats struct {
	lr, gradNorm float64
	samples      int // of this rank
	data, comm   time.Duration
	total        time.Duration
}

// step makes one update from micros batches of the loader.
func (r *rank) step(ctx context.Context, loader *data.Loader, micros int) (stepStats, error) {
	begin := time.Now()
	var s stepStats
	r.model.State().ClearGrads()
	own, err := r.reducer.ClearExtra()
	if err != nil {
		return s, err
	}
	for m := range micros {
		waited := time.Now()
		batch, err := loader.Next(ctx)
		if err != nil {
			return s, err
		}
		s.data += time.Since(waited)
		s.samples += batch.N
		r.trace.add(r.at.epoch, batch.Indices)
		err = r.micro(ctx, batch, m, micros, own)
		batch.Release()
		if err != nil {
			return s, err
		}
	}
	if err := r.reducer.Finish(ctx); err != nil {
		return s, err
	}
	s.comm = r.reducer.Waited()
	if err := r.reducer.ReadExtra(r.extra); err != nil {
		return s, err
	}
	if s.gradNorm, err = r.gradNorm(); err != nil {
		return s, err
	}
	if err := r.refuseNonFinite(s.gradNorm); err != nil {
		return s, err
	}
	err = r.update(&s)
	s.total = time.Since(begin)
	return s, err
}

// micro runs forward and backward over one batch; the exchange starts in the
// last of a step.
func (r *rank) micro(ctx context.Context, batch *data.Batch, m, micros int, lossSlot *tensor.Tensor) error {
	last := m == micros-1
	if err := r.reducer.BroadcastBuffers(ctx); err != nil {
		return err
	}
	in, targets, err := r.upload(batch)
	if err != nil {
		return err
	}
	defer targets.Release()
	rows := float64(targets.Len() * micros)
	r.tape.Train(dropoutSeed(r.job.Model.Init.Seed, r.at.step, m, r.pg.Rank()))
	if in.Tokens != nil {
		defer in.Tokens.Release()
	}
	logits := r.model.Forward(r.tape, in)
	if err := r.dev.Zero(r.loss.Sum); err != nil {
		return err
	}
	nn.CrossEntropy(r.tape, logits, targets, nn.Loss{Sum: r.loss.Sum}, float32(r.reducer.LossScale()/rows))
	if err := r.tape.Err(); err != nil {
		return err
	}
	// The mean loss of the step travels behind the last bucket's gradients.
	if err := r.dev.Scale(r.loss.Sum, float32(1/rows)); err != nil {
		return err
	}
	if err := r.dev.Add(lossSlot, lossSlot, r.loss.Sum); err != nil {
		return err
	}
	if err := r.reducer.Begin(r.tape, last); err != nil {
		return err
	}
	return r.tape.Backward()
}

// upload brings a batch to the device.
func (r *rank) upload(b *data.Batch) (nn.Input, *tensor.Tensor, error) {
	in := nn.Input{N: b.N}
	spec := r.sets.Train.Spec()
	targets, err := r.dev.Alloc("targets", tensor.Int32, len(b.Y))
	if err != nil {
		return in, nil, err
	}
	if err := r.dev.Upload(targets, bytesOf(b.Y)); err != nil {
		return in, nil, err
	}
	if spec.Tokens > 0 {
		in.Length = spec.Tokens
		if in.Tokens, err = r.dev.Alloc("tokens", tensor.Int32, len(b.Tokens)); err != nil {
			return in, nil, err
		}
		return in, targets, r.dev.Upload(in.Tokens, bytesOf(b.Tokens))
	}
	shape := append([]int{b.N}, spec.Features...)
	if in.X, err = r.dev.Alloc("features", tensor.Float32, shape...); err != nil {
		return in, nil, err
	}
	return in, targets, r.dev.Upload(in.X, bytesOf(b.X))
}

// gradNorm is the norm of all exchanged gradients.
func (r *rank) gradNorm() (float64, error) {
	sum, err := r.dev.SumSquares(r.reducer.Grads())
	return math.Sqrt(sum), err
}

// update clips and applies the exchanged gradients.
func (r *rank) update(s *stepStats) error {
	s.lr = optim.LR(r.job.Schedule, r.job.Optimizer.LR, r.at.step, r.plan.total)
	return r.opt.Step(s.lr, optim.ClipScale(s.gradNorm, r.job.Train.ClipGradNorm), r.reducer.Unused)
}

// refuseNonFinite ends the run when a rank's loss or the gradient is no number
// any more: from there no update helps, and none of it may reach a checkpoint.
// All ranks see the same numbers, so they agree without a word.
func (r *rank) refuseNonFinite(norm float64) error {
	refuse := func(rank int, what string, v float64) error {
		const help = "lower optimizer.lr, set train.clip_grad_norm, or look for bad samples"
		text := fmt.Sprintf("step %d: the %s is %v: training has diverged; %s", r.at.step, what, v, help)
		return &Failure{Rank: rank, Code: exitcode.Failure, Message: text, Failed: everyRank}
	}
	for k, l := range r.extra {
		if v := float64(l); !finite(v) {
			return refuse(k, fmt.Sprintf("loss of rank %d", k), v)
		}
	}
	if !finite(norm) {
		return refuse(0, "norm of the gradient", norm)
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// dropoutSeed is different for every pass of every rank, and the same when a
// resumed run repeats the pass.
func dropoutSeed(seed int64, step, micro, rank int) uint64 {
	h := uint64(seed) + 0x9e3779b97f4a7c15
	for _, v := range []int{step, micro, rank} {
		// SplitMix64's finaliser (Steele, Lea, Flood 2014).
		h = (h ^ uint64(v)) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// bytesOf is the memory of s as bytes.
func bytesOf[T float32 | int32](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s))
}
