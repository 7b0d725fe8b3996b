package ddp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Options of a Reducer.
type Options struct {
	BucketCap        int // bytes
	FirstBucket      int // bytes
	BroadcastBuffers bool
	FindUnused       bool
	// Extra is the number of float32 values per rank that travel behind the
	// last bucket's gradients: see ClearExtra.
	Extra int
}

// Reducer exchanges one model's gradients.
type Reducer struct {
	group   collective.Group
	dev     device.Device
	ps      *nn.Parameters
	opt     Options
	buckets []*bucket
	of      map[*nn.Param]*bucket
	next    int // bucket that goes out next
	syncing bool
	extra   *tensor.Tensor // [size extra], tail of the last bucket
	own     *tensor.Tensor // this rank's row of extra
	anyUsed []int32        // 1 for each parameter some rank used; nil when not asked for
	waited  time.Duration
	failed  error // of a hook
}

// bucket is a run of gradients that travels as one.
type bucket struct {
	flat    *tensor.Tensor
	params  []*nn.Param
	pending int
	work    collective.Work
}

// New compares the model across the ranks of g, gives every parameter a
// gradient inside a bucket, and makes parameters and buffers those of rank 0.
// It is collective: every rank calls it, and a difference is an error on all.
func New(ctx context.Context, g collective.Group, d device.Device, ps *nn.Parameters, opt Options) (*Reducer, error) {
	r := &Reducer{group: g, dev: d, ps: ps, opt: opt, of: map[*nn.Param]*bucket{}}
	if err := verify(ctx, g, ps); err != nil {
		return nil, err
	}
	if err := r.build(); err != nil {
		return nil, err
	}
	return r, r.broadcast(ctx)
}

// build lays the buckets out: parameters in reverse order of registration,
// since backward reaches the last ones first.
func (r *Reducer) build() error {
	params := slices.Clone(r.ps.Params)
	slices.Reverse(params)
	entries := make([]Entry, len(params))
	for i, p := range params {
		entries[i] = Entry{Bytes: p.Value.Bytes(), DType: p.Value.DType().String(), Place: p.Value.Place().String()}
	}
	plan := Assign(entries, Limits{r.opt.FirstBucket, r.opt.BucketCap})
	for k, indices := range plan {
		b := &bucket{}
		for _, i := range indices {
			b.params = append(b.params, params[i])
			r.of[params[i]] = b
		}
		tail := 0
		if k == len(plan)-1 {
			tail = r.group.Size() * r.opt.Extra
		}
		if err := r.attach(b, tail); err != nil {
			return err
		}
		r.buckets = append(r.buckets, b)
	}
	return nil
}

// attach allocates the bucket and makes the gradients views into it.
func (r *Reducer) attach(b *bucket, tail int) error {
	total := tail
	for _, p := range b.params {
		total += p.Len()
	}
	var err error
	if b.flat, err = r.dev.Alloc("gradient bucket", tensor.Float32, total); err != nil {
		return err
	}
	if err := r.dev.Zero(b.flat); err != nil {
		return err
	}
	at := 0
	for _, p := range b.params {
		if p.Grad, err = b.flat.Slice(at, p.Shape...); err != nil {
			return err
		}
		p.Grad.Name = p.Name + ".grad"
		at += p.Len()
	}
	if tail > 0 {
		if r.extra, err = b.flat.Slice(at, r.group.Size(), r.opt.Extra); err != nil {
			return err
		}
		r.own, err = r.extra.Slice(r.group.Rank()*r.opt.Extra, r.opt.Extra)
	}
	return err
}

// Layout is the names of the parameters of each bucket.
func (r *Reducer) Layout() [][]string {
	var names [][]string
	for _, b := range r.buckets {
		var ns []string
		for _, p := range b.params {
			ns = append(ns, p.Name)
		}
		names = append(names, ns)
	}
	return names
}

// broadcast makes parameters and buffers those of rank 0.
func (r *Reducer) broadcast(ctx context.Context) error {
	if err := r.dev.Synchronize(); err != nil {
		return err
	}
	for _, t := range []*tensor.Tensor{r.ps.FlatParams(), r.ps.FlatBuffers()} {
		if t == nil {
			continue
		}
		if err := r.group.Broadcast(View(t), 0).Wait(ctx); err != nil {
			return fmt.Errorf("broadcast of %s from rank 0: %w", t.Name, err)
		}
	}
	return nil
}

// BroadcastBuffers makes the model's buffers those of rank 0, as before each
// synchronised forward and before an evaluation. It does nothing if the model
// has none or the job switched it off.
func (r *Reducer) BroadcastBuffers(ctx context.Context) error {
	t := r.ps.FlatBuffers()
	if t == nil || !r.opt.BroadcastBuffers || r.group.Size() == 1 {
		return nil
	}
	if err := r.group.Broadcast(View(t), 0).Wait(ctx); err != nil {
		return fmt.Errorf("broadcast of buffers: %w", err)
	}
	return nil
}

// LossScale is the factor of the loss gradient that makes the sum over ranks
// a mean.
func (r *Reducer) LossScale() float64 { return 1 / float64(r.group.Size()) }

// Begin prepares a backward pass over t. With sync, gradients are exchanged as
// they become final; without, they only add up on this rank.
func (r *Reducer) Begin(t *nn.Tape, sync bool) error {
	r.syncing, r.next, r.waited = sync, 0, 0
	if !sync {
		t.OnGrad = nil
		return nil
	}
	t.OnGrad = r.ready
	for _, b := range r.buckets {
		b.pending, b.work = 0, nil
		for _, p := range b.params {
			if p.Pending() {
				b.pending++
			}
		}
	}
	if err := r.refuseUnused(); err != nil {
		return err
	}
	return r.fillUnused()
}

// refuseUnused is the error of a pass that left parameters out, unless the job
// allows it.
func (r *Reducer) refuseUnused() error {
	if r.opt.FindUnused {
		return nil
	}
	var names []string
	for _, p := range r.ps.Params {
		if !p.Used() {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("rank %d: the loss does not depend on %s, so no gradient comes for the exchange; use every parameter, or set ddp.find_unused_parameters: true",
		r.group.Rank(), strings.Join(names, ", "))
}

// fillUnused gives parameters that this rank did not use a zero gradient: it
// has nothing to add to what others have.
func (r *Reducer) fillUnused() error {
	for _, p := range r.ps.Params {
		if p.Used() {
			continue
		}
		if err := r.fill(p); err != nil {
			return err
		}
	}
	return nil
}

// ClearExtra zeroes the values that travel behind the gradients and returns
// this rank's own, [Options.Extra], to be written before Backward. After Finish
// every rank has those of all.
func (r *Reducer) ClearExtra() (*tensor.Tensor, error) { return r.own, r.dev.Zero(r.extra) }

// ReadExtra copies the values of all ranks into dst: those of rank k begin at
// k*Options.Extra. It waits for the device.
func (r *Reducer) ReadExtra(dst []float32) error { return r.dev.Download(bytesOf(dst), r.extra) }

// ready counts a final gradient and sends the buckets whose turn has come.
func (r *Reducer) ready(p *nn.Param) {
	if err := r.fill(p); err != nil {
		// Finish reports it: an incomplete bucket must not go out.
		r.failed = err
		return
	}
	r.of[p].pending--
	r.launch()
}

// fill makes a gradient that nothing was written to a zero one.
func (r *Reducer) fill(p *nn.Param) error {
	if p.Filled() {
		return nil
	}
	p.MarkFilled()
	return r.dev.Zero(p.Grad)
}

func (r *Reducer) launch() {
	for r.next < len(r.buckets) && r.buckets[r.next].pending == 0 {
		b := r.buckets[r.next]
		b.work = r.group.AllReduce(View(b.flat), collective.Sum)
		r.next++
	}
}

// Finish waits until all gradients of a synchronised pass are the mean over
// the ranks.
func (r *Reducer) Finish(ctx context.Context) error {
	if !r.syncing {
		return nil
	}
	if r.failed != nil {
		return r.failed
	}
	r.launch()
	if r.next < len(r.buckets) {
		return fmt.Errorf("rank %d: backward ended with %d of %d buckets incomplete", r.group.Rank(), len(r.buckets)-r.next, len(r.buckets))
	}
	start := time.Now()
	for k, b := range r.buckets {
		if err := b.work.Wait(ctx); err != nil {
			return fmt.Errorf("gradient bucket %d (%s ... %s): %w", k, b.params[0].Name, b.params[len(b.params)-1].Name, err)
		}
	}
	if err := r.exchangeUsed(ctx); err != nil {
		return err
	}
	r.waited = time.Since(start)
	return nil
}

// exchangeUsed finds out which parameters no rank used.
func (r *Reducer) exchangeUsed(ctx context.Context) error {
	if !r.opt.FindUnused {
		return nil
	}
	r.anyUsed = make([]int32, len(r.ps.Params))
	for i, p := range r.ps.Params {
		if p.Used() {
			r.anyUsed[i] = 1
		}
	}
	return r.group.AllReduce(collective.HostBuffer(r.anyUsed), collective.Max).Wait(ctx)
}

// Unused says whether no rank used p in the step just finished: its gradient
// is to be left alone.
func (r *Reducer) Unused(p *nn.Param) bool {
	if r.anyUsed == nil {
		return false
	}
	return r.anyUsed[slices.Index(r.ps.Params, p)] == 0
}

// Grads is all gradients, bucket by bucket, without what travels behind them.
func (r *Reducer) Grads() []*tensor.Tensor {
	ts := make([]*tensor.Tensor, 0, len(r.ps.Params))
	for _, p := range r.ps.Params {
		ts = append(ts, p.Grad)
	}
	return ts
}

// Waited is how long the last Finish waited for transfers that backward did
// not hide.
func (r *Reducer) Waited() time.Duration { return r.waited }
