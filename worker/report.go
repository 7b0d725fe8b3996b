package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker/metrics"
)

// reporter tells rank 0's view of the run to people and to metrics.jsonl. On
// other ranks it is nil and does nothing.
type reporter struct {
	events   *metrics.Writer
	progress *metrics.Progress
	attempt  int
	resumed  string // checkpoint, empty if the run began afresh
}

// openReports opens what a rank writes beside checkpoints, and proves that
// checkpoints can be written.
func (r *rank) openReports() error {
	var err error
	if r.trace, err = openTrace(r.job.Debug.TraceSamples, r.pg.Rank()); err != nil {
		return err
	}
	if err := r.openCheckpoints(); err != nil {
		return err
	}
	if r.pg.Rank() != 0 {
		return nil
	}
	r.report = &reporter{attempt: r.cfg.Env.Attempt}
	if dir := r.cfg.Env.RunDir; dir != "" {
		r.report.events, err = metrics.Open(filepath.Join(dir, "metrics.jsonl"), func(err error) { r.logger().Warn(err.Error()) })
	}
	return err
}

// banner lists all resolved settings before the first step.
func (p *reporter) banner(r *rank) {
	if p == nil {
		return
	}
	if err := metrics.Banner(r.cfg.Console, r.settings()); err != nil {
		r.logger().Debug("start banner", zap.Error(err))
	}
	p.progress = metrics.NewProgress(r.cfg.Console, r.cfg.Env.Progress == rankenv.ProgressBar, r.job.Train.LogEvery, r.plan.total)
}

// settings is the banner's contents.
func (r *rank) settings() []metrics.Item {
	j, t, o := r.job, r.job.Train, r.job.Optimizer
	params := 0
	for _, p := range r.model.State().Params {
		params += p.Len()
	}
	items := []metrics.Item{
		{Key: "ddprun " + j.Name},
		{Key: "ranks", Value: fmt.Sprintf("%d (process group %s)", r.pg.Size(), r.pg.Backend())},
		{Key: "device", Value: r.dev.Describe()},
		{Key: "precision", Value: j.Precision},
		{Key: "model", Value: fmt.Sprintf("%s, %d parameters in %d tensors, seed %d", j.Model.Type, params, len(r.model.State().Params), j.Model.Init.Seed)},
		{Key: "data", Value: fmt.Sprintf("%s, %d samples to train on, %d to evaluate on", j.Data.Type, r.sets.Train.Len(), r.evalSamples())},
		{Key: "sampler", Value: fmt.Sprintf("shuffle %v, seed %d, drop_last %v", j.Sampler.Shuffle, j.Sampler.Seed, j.Sampler.DropLast)},
		{Key: "loader", Value: fmt.Sprintf("%d workers, prefetch_factor %d, drop_last %v", j.Loader.Workers, j.Loader.PrefetchFactor, j.Loader.DropLast)},
		{Key: "batch", Value: fmt.Sprintf("%d per rank x %d ranks x %d accumulated = %d", t.BatchSize, r.pg.Size(), t.Accumulate, t.BatchSize*r.pg.Size()*t.Accumulate)},
		{Key: "steps", Value: fmt.Sprintf("%d (%d an epoch)", r.plan.total, r.plan.stepsPerEpoch)},
		{Key: "optimizer", Value: describeOptimizer(o.Type, o.LR, o.Momentum, o.Betas, o.Eps, o.WeightDecay, o.Decay, o.Nesterov)},
		{Key: "schedule", Value: fmt.Sprintf("%s, warmup_steps %d, min_lr %g", j.Schedule.Type, j.Schedule.WarmupSteps, j.Schedule.MinLR)},
		{Key: "clip_grad_norm", Value: offOr(t.ClipGradNorm)},
		{Key: "buckets", Value: r.describeBuckets()},
		{Key: "checkpoints", Value: r.describeCheckpoints()},
	}
	if dir := r.cfg.Env.RunDir; dir != "" {
		items = append(items, metrics.Item{Key: "run directory", Value: dir})
	}
	return append(items, metrics.Item{Key: "start", Value: r.describeStart()})
}

func (r *rank) evalSamples() int {
	if r.sets.Eval == nil {
		return 0
	}
	return r.sets.Eval.Len()
}

func describeOptimizer(kind string, lr, momentum float64, betas [2]float64, eps, decay float64, which string, nesterov bool) string {
	if kind == "sgd" {
		return fmt.Sprintf("sgd, lr %g, momentum %g, nesterov %v, weight_decay %g (%s)", lr, momentum, nesterov, decay, which)
	}
	return fmt.Sprintf("%s, lr %g, betas %g %g, eps %g, weight_decay %g (%s)", kind, lr, betas[0], betas[1], eps, decay, which)
}

func offOr(v float64) string {
	if v == 0 {
		return "off"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (r *rank) describeBuckets() string {
	var sizes []string
	for _, b := range r.reducer.Layout() {
		sizes = append(sizes, strconv.Itoa(len(b)))
	}
	return fmt.Sprintf("%d (tensors in each: %s), bucket_cap_mb %g, first_bucket_mb %g",
		len(sizes), strings.Join(sizes, " "), r.job.DDP.BucketCapMB, r.job.DDP.FirstBucketMB)
}

func (r *rank) describeCheckpoints() string {
	c := r.job.Checkpoint
	if !r.saves() {
		return "off"
	}
	return fmt.Sprintf("%s, every_steps %d, every_epochs %d, keep %d", r.checkpointDir(), c.EverySteps, c.EveryEpochs, c.Keep)
}

func (r *rank) describeStart() string {
	if r.report.resumed == "" {
		return fmt.Sprintf("from step 0 (%s, %s/%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	return fmt.Sprintf("from step %d, epoch %d of %s", r.at.step, r.at.epoch, r.report.resumed)
}

// step tells of the update that has just been made; r.at.step is still its
// number.
func (p *reporter) step(r *rank, s stepStats) {
	if p == nil {
		return
	}
	losses, mean := make([]metrics.Float, len(r.extra)), 0.0
	for k, l := range r.extra {
		losses[k] = metrics.Float(l)
		mean += float64(l) / float64(len(r.extra))
	}
	samples := s.samples * r.pg.Size()
	if p.events != nil {
		p.events.Write(metrics.Step{
			Event: "step", Attempt: p.attempt, Epoch: r.at.epoch, Step: r.at.step,
			LR: metrics.Float(s.lr), Loss: metrics.Float(mean), LossPerRank: losses, GradNorm: metrics.Float(s.gradNorm),
			SamplesPerS: metrics.Float(float64(samples) / s.total.Seconds()),
			StepMS:      milliseconds(s.total), DataMS: milliseconds(s.data), CommMS: milliseconds(s.comm),
			Scale: 1, MemPeak: r.dev.Stats().PeakAllocated, Time: now(),
		})
	}
	p.progress.Step(r.at.epoch, r.at.step+1, samples, mean, s.lr)
}

// eval tells of an evaluation.
func (p *reporter) eval(r *rank, epoch int, e evalResult) {
	if p == nil {
		return
	}
	accuracy := float64(e.correct) / float64(e.total)
	if p.events != nil {
		p.events.Write(metrics.Eval{
			Event: "eval", Attempt: p.attempt, Epoch: epoch, Step: r.at.step, Loss: metrics.Float(e.loss),
			Correct: e.correct, Total: e.total, Accuracy: metrics.Float(accuracy), Time: now(),
		})
	}
	p.progress.Eval(epoch, e.loss, accuracy, e.correct, e.total)
}

func milliseconds(d time.Duration) metrics.Float { return metrics.Float(d.Seconds() * 1e3) }

func now() metrics.Float { return metrics.Float(float64(time.Now().UnixMicro()) / 1e6) }

// flush brings the lines of metrics.jsonl to the file.
func (p *reporter) flush() {
	if p != nil && p.events != nil {
		p.events.Flush()
	}
}

func (p *reporter) close() error {
	if p == nil || p.events == nil {
		return nil
	}
	return errors.Join(p.events.Close())
}
