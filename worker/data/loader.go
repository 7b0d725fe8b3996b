package data

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// LoaderConfig is how batches are made.
type LoaderConfig struct {
	BatchSize      int           // samples
	Workers        int           // goroutines that read ahead; 0: Next reads itself
	PrefetchFactor int           // batches that each worker may be ahead
	DropLast       bool          // leave out a short last batch
	Timeout        time.Duration // for one batch; 0: none
}

// Loader makes the batches of one epoch after another. Its workers live until
// Close. Batches come in the order of the samples; an error comes in place of
// the batch that it belongs to.
type Loader struct {
	set   Set
	cfg   LoaderConfig
	pool  *pool
	tasks chan task
	done  sync.WaitGroup

	order  []int
	count  int           // batches of this epoch
	issued int           // given to workers
	taken  int           // returned by Next
	slots  []chan loaded // ring: where batch k arrives, at k modulo its length
}

type task struct {
	indices []int
	out     chan<- loaded
}

type loaded struct {
	batch *Batch
	err   error
}

// NewLoader starts the workers; Start gives them something to do.
func NewLoader(set Set, cfg LoaderConfig) *Loader {
	depth := max(cfg.Workers*max(cfg.PrefetchFactor, 1), 1)
	l := &Loader{set: set, cfg: cfg, pool: newPool(set.Spec(), cfg.BatchSize, depth+1)}
	if cfg.Workers <= 0 {
		return l
	}
	l.tasks = make(chan task, depth)
	l.slots = make([]chan loaded, depth)
	for i := range l.slots {
		// Room for the batch: a worker never waits for Next.
		l.slots[i] = make(chan loaded, 1)
	}
	for range cfg.Workers {
		l.done.Go(l.work)
	}
	return l
}

func (l *Loader) work() {
	for t := range l.tasks {
		b := l.pool.get(t.indices)
		t.out <- loaded{b, b.fill(l.set)}
	}
}

// Start begins an epoch, or the rest of one, with the samples of order. What
// was left of the epoch before is dropped.
func (l *Loader) Start(order []int) error {
	l.drain()
	if l.cfg.BatchSize < 1 {
		return fmt.Errorf("loader: batch size %d", l.cfg.BatchSize)
	}
	l.order = order
	l.count = (len(order) + l.cfg.BatchSize - 1) / l.cfg.BatchSize
	if l.cfg.DropLast {
		l.count = len(order) / l.cfg.BatchSize
	}
	l.issued, l.taken = 0, 0
	for l.issued < min(l.count, len(l.slots)) {
		l.issue()
	}
	return nil
}

// issue gives the next batch to the workers. The channel has room for all that
// may be under way.
func (l *Loader) issue() {
	l.tasks <- task{l.indices(l.issued), l.slots[l.issued%len(l.slots)]}
	l.issued++
}

func (l *Loader) indices(k int) []int {
	from := k * l.cfg.BatchSize
	return l.order[from:min(from+l.cfg.BatchSize, len(l.order))]
}

// Next returns the next batch, io.EOF after the last.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.taken >= l.count {
		return nil, io.EOF
	}
	if l.tasks == nil {
		b := l.pool.get(l.indices(l.taken))
		l.taken++
		if err := b.fill(l.set); err != nil {
			b.Release()
			return nil, err
		}
		return b, nil
	}
	got, err := l.await(ctx)
	if err != nil {
		return nil, err
	}
	l.taken++
	if l.issued < l.count {
		l.issue()
	}
	if got.err != nil {
		got.batch.Release()
		return nil, got.err
	}
	return got.batch, nil
}

// await waits for the batch whose turn it is.
func (l *Loader) await(ctx context.Context) (loaded, error) {
	slot := l.slots[l.taken%len(l.slots)]
	select {
	case got := <-slot:
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
	case got := <-slot:
		return got, nil
	case <-ctx.Done():
		return loaded{}, ctx.Err()
	case <-late:
		ids := l.indices(l.taken)
		err := fmt.Errorf("loader: samples %d ... %d (batch %d of the epoch) were not read within %s", ids[0], ids[len(ids)-1], l.taken, l.cfg.Timeout)
		return loaded{}, exitcode.With(err, exitcode.Data)
	}
}

// drain takes back the batches that nobody asked for.
func (l *Loader) drain() {
	for ; l.taken < l.issued; l.taken++ {
		got := <-l.slots[l.taken%len(l.slots)]
		got.batch.Release()
	}
}

// Close ends the workers. A sample that is being read is read to its end.
func (l *Loader) Close() {
	if l.tasks == nil {
		return
	}
	close(l.tasks)
	l.done.Wait()
	l.tasks = nil
	l.count = 0
}
