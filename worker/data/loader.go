package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// LoaderConfig is how batches are made.
type LoaderConfig struct {
	BatchSize      int           // samples
	Workers        int           // goroutines that read ahead; 0: Next reads itself
	PrefetchFactor int           // batches that each worker may be ahead
	DropLast       bool          // leave out a short last batch
	Timeout        time.Duration // for one batch that a worker makes; 0: none
}

// Loader makes the batches of one epoch after another. Its workers live until
// Close. Batches come in the order of the samples; an error comes in place of
// the batch that it belongs to. At most Workers*PrefetchFactor batches are
// made and not yet returned. Start, Next and Close are for one goroutine;
// batches may be released from any.
type Loader struct {
	set     Set
	cfg     LoaderConfig
	pool    *pool
	tasks   chan task
	dropped atomic.Bool   // what is under way is not wanted any more
	alive   atomic.Int64  // workers
	ended   chan struct{} // closed by the last worker
	failed  error         // a worker is stuck

	order  []int
	count  int    // batches of this epoch
	issued int    // given to workers
	taken  int    // returned by Next
	slots  []slot // ring: batch k arrives at k modulo its length
}

// slot is where a batch arrives. It has room for it: a worker never waits for
// Next.
type slot struct {
	out chan loaded
	now atomic.Int64 // sample being read, -1: none yet
}

type task struct {
	indices []int
	to      *slot
}

type loaded struct {
	batch *Batch
	err   error
}

// NewLoader starts the workers; Start gives them something to do.
func NewLoader(set Set, cfg LoaderConfig) *Loader {
	workers := max(cfg.Workers, 0)
	depth := workers * max(cfg.PrefetchFactor, 1)
	l := &Loader{set: set, cfg: cfg, slots: make([]slot, max(depth, 1))}
	// One batch is in the hands of the caller.
	l.pool = newPool(set.Spec(), cfg.BatchSize, depth+1)
	for i := range l.slots {
		l.slots[i].out = make(chan loaded, 1)
	}
	if workers == 0 {
		return l
	}
	l.tasks, l.ended = make(chan task, depth), make(chan struct{})
	l.alive.Store(int64(workers))
	for range workers {
		go l.work()
	}
	return l
}

func (l *Loader) work() {
	for t := range l.tasks {
		b := l.pool.get(t.indices)
		t.to.out <- loaded{b, b.fill(l.set, &t.to.now, &l.dropped)}
	}
	if l.alive.Add(-1) == 0 {
		close(l.ended)
	}
}

// Start begins an epoch, or the rest of one, with the samples of order, which
// belongs to the loader until the next Start. What was left of the epoch before
// is dropped.
func (l *Loader) Start(order []int) error {
	l.drain()
	switch {
	case l.failed != nil:
		return l.failed
	case l.cfg.BatchSize < 1:
		return fmt.Errorf("loader: a batch of %d samples", l.cfg.BatchSize)
	}
	l.order = order
	l.count = (len(order) + l.cfg.BatchSize - 1) / l.cfg.BatchSize
	if l.cfg.DropLast {
		l.count = len(order) / l.cfg.BatchSize
	}
	l.issued, l.taken = 0, 0
	for l.tasks != nil && l.issued < min(l.count, len(l.slots)) {
		l.issue()
	}
	return nil
}

// issue gives the next batch to the workers. The channel has room for all that
// may be under way.
func (l *Loader) issue() {
	to := &l.slots[l.issued%len(l.slots)]
	to.now.Store(-1)
	l.tasks <- task{l.indices(l.issued), to}
	l.issued++
}

func (l *Loader) indices(k int) []int {
	from := k * l.cfg.BatchSize
	return l.order[from:min(from+l.cfg.BatchSize, len(l.order))]
}

// Next returns the next batch, io.EOF after the last of an epoch. After an
// error of a batch the next call goes on behind it; after a timeout the loader
// is of no more use.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	switch {
	case l.failed != nil:
		return nil, l.failed
	case l.taken >= l.count:
		return nil, io.EOF
	}
	got, err := l.take(ctx)
	if err != nil {
		return nil, err
	}
	l.taken++
	if l.tasks != nil && l.issued < l.count {
		l.issue()
	}
	if got.err != nil {
		got.batch.Release()
		return nil, got.err
	}
	return got.batch, nil
}

// take makes the batch whose turn it is, or waits for it.
func (l *Loader) take(ctx context.Context) (loaded, error) {
	s := &l.slots[l.taken%len(l.slots)]
	if l.tasks == nil {
		if err := ctx.Err(); err != nil {
			return loaded{}, err
		}
		b := l.pool.get(l.indices(l.taken))
		return loaded{b, b.fill(l.set, &s.now, &l.dropped)}, nil
	}
	select {
	case got := <-s.out:
		return got, nil
	default:
	}
	var late <-chan time.Time
	if l.cfg.Timeout > 0 {
		t := time.NewTimer(l.cfg.Timeout)
		defer t.Stop()
		late = t.C
	}
	select {
	case got := <-s.out:
		return got, nil
	case <-ctx.Done():
		return loaded{}, ctx.Err()
	case <-late:
		l.failed = l.lateError(s)
		return loaded{}, l.failed
	}
}

// lateError names the sample that a worker is reading, or that none has begun.
func (l *Loader) lateError(s *slot) error {
	what := "no worker has begun it"
	if i := int(s.now.Load()); i >= 0 {
		what = fmt.Sprintf("still reading sample %d", i)
		if at := place(l.set, i); at != "" {
			what += " (" + at + ")"
		}
	}
	err := fmt.Errorf("loader: batch %d of the epoch is not there after %s: %s", l.taken, l.cfg.Timeout, what)
	return exitcode.With(err, exitcode.Data)
}

// drain takes back the batches that nobody asked for.
func (l *Loader) drain() {
	if l.failed != nil {
		return
	}
	l.dropped.Store(true)
	for ; l.taken < l.issued; l.taken++ {
		got := <-l.slots[l.taken%len(l.slots)].out
		got.batch.Release()
	}
	l.dropped.Store(false)
}

// closeGrace is how long Close waits for samples that are being read.
const closeGrace = 5 * time.Second

var errClosed = errors.New("loader: is closed")

// Close ends the workers. A sample that is being read is read to its end, but a
// read that hangs, of a network file system that is gone for instance, does not
// hold up the end of the program: it is left behind after five seconds.
func (l *Loader) Close() {
	if l.tasks != nil {
		l.dropped.Store(true)
		close(l.tasks)
		l.awaitWorkers()
		l.tasks = nil
	}
	if l.failed == nil {
		l.failed = errClosed
	}
}

func (l *Loader) awaitWorkers() {
	if l.failed != nil {
		return // one of them is stuck
	}
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-l.ended:
	case <-t.C:
	}
}
