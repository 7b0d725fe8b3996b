package worker

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/sampler"
	"github.com/ddprun/ddprun/worker/data"
	"github.com/ddprun/ddprun/worker/ddp"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/optim"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Config is what a rank is started with.
type Config struct {
	Job      *job.Job
	Env      rankenv.Env
	Backends Backends
	Log      *zap.Logger
	Console  io.Writer // what a person sees; used by rank 0 alone
}

// rank is the state of one rank.
type rank struct {
	cfg  Config
	job  *job.Job
	log  *zap.Logger
	dev  device.Device
	pg   collective.Group
	sets *data.Sets

	model   nn.Model
	classes int
	tape    *nn.Tape
	loss    nn.Loss
	reducer *ddp.Reducer
	opt     *optim.Optimizer
	order   *sampler.Sampler
	plan    plan
	at      position
	report  *reporter // nil but on rank 0
	trace   *sampleTrace
	extra   []float32 // losses of all ranks in the step just done
	saved   int       // step of the newest checkpoint of this run, -1: none
	said    time.Time // when a checkpoint was last told of
}

// Run trains the job as one rank. All ranks return together: with nil, or with
// an error; errors that the ranks could agree on are a *Failure.
func Run(ctx context.Context, cfg Config) (err error) {
	r := &rank{cfg: cfg, job: cfg.Job, log: cfg.Log, saved: -1}
	defer func() { err = errors.Join(err, r.close(err)) }()

	// The ranks meet.
	if err := r.meet(ctx); err != nil {
		return err
	}
	// What each does on its own: samples, model, where an earlier run stopped.
	if err := agree(ctx, r.pg, r.prepare(ctx)); err != nil {
		return err
	}
	// From here on all have the same parameters.
	if err := r.replicate(ctx); err != nil {
		return err
	}
	r.report.banner(r)
	// Batches, forward, backward with the exchange of gradients, update.
	return r.train(ctx)
}

// meet opens the device and the process group.
func (r *rank) meet(ctx context.Context) error {
	name := r.cfg.Backends.deviceName(r.job)
	var err error
	if r.dev, err = r.cfg.Backends.openDevice(name, r.job.Precision, r.cfg.Env); err != nil {
		return err
	}
	r.pg, err = r.cfg.Backends.openGroup(ctx, r.job.DDP.Backend, name, r.cfg.Env, r.dev)
	return err
}

// prepare is the part of the start that needs no other rank.
func (r *rank) prepare(context.Context) error {
	for _, stage := range []func() error{r.openData, r.buildModel, r.planSteps, r.openReports} {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// replicate makes all ranks equal: rank 0's checkpoint if there is one, its
// parameters and buffers in any case.
func (r *rank) replicate(ctx context.Context) error {
	if err := r.resume(ctx); err != nil {
		return err
	}
	d := r.job.DDP
	var err error
	r.reducer, err = ddp.New(ctx, r.pg, r.dev, r.model.State(), ddp.Options{
		BucketCap: int(d.BucketCapMB * (1 << 20)), FirstBucket: int(d.FirstBucketMB * (1 << 20)),
		BroadcastBuffers: d.BroadcastBuffers, FindUnused: d.FindUnusedParameters, Extra: 1,
	})
	return err
}

// close gives everything back; cause is why the rank ends, nil if all is well.
func (r *rank) close(cause error) error {
	var errs []error
	if r.sets != nil {
		errs = append(errs, r.sets.Close())
	}
	errs = append(errs, r.trace.close(), r.report.close())
	if r.pg != nil {
		var agreed *Failure
		if cause != nil && !errors.As(cause, &agreed) {
			r.pg.Abort(cause)
		}
		errs = append(errs, r.pg.Close())
	}
	if cause != nil {
		// What goes wrong on the way out must not stand before the cause.
		return nil
	}
	return errors.Join(errs...)
}

// zeroed is a tensor of one element, for sums.
func (r *rank) zeroed(name string, dtype tensor.DType) (*tensor.Tensor, error) {
	t, err := r.dev.Alloc(name, dtype, 1)
	if err != nil {
		return nil, err
	}
	return t, r.dev.Zero(t)
}

// logger is the rank's logger with the step it is at.
func (r *rank) logger() *zap.Logger { return r.log.With(zap.Int("step", r.at.step)) }
