package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
)

// slowSet takes a random time for each sample.
type slowSet struct {
	n    int
	bad  int // sample that cannot be read, -1: none
	most time.Duration
}

func (s slowSet) Len() int               { return s.n }
func (s slowSet) Spec() Spec             { return Spec{Features: []int{2}} }
func (s slowSet) CheckClasses(int) error { return nil }
func (s slowSet) Read(i int, x []float32, _, y []int32) error {
	if s.most > 0 {
		time.Sleep(rand.N(s.most))
	}
	if i == s.bad {
		return fmt.Errorf("sample %d is broken", i)
	}
	x[0], x[1], y[0] = float32(i), -float32(i), int32(i)
	return nil
}

func order(n int) []int { return rand.New(rand.NewPCG(1, 2)).Perm(n) }

// drainLoader reads an epoch and returns the samples in the order they came.
func drainLoader(t *testing.T, l *Loader) []int {
	t.Helper()
	var got []int
	for {
		b, err := l.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range b.Indices {
			if b.X[2*k] != float32(i) || b.X[2*k+1] != -float32(i) || b.Y[k] != int32(i) {
				t.Fatalf("sample %d came as %v %v", i, b.X[2*k:2*k+2], b.Y[k])
			}
			got = append(got, i)
		}
		b.Release()
	}
}

func TestOrderDoesNotDependOnWorkers(t *testing.T) {
	defer goleak.VerifyNone(t)
	want := order(53)
	for _, workers := range []int{0, 1, 2, 4, 9} {
		l := NewLoader(slowSet{n: 53, bad: -1, most: time.Millisecond}, LoaderConfig{BatchSize: 4, Workers: workers, PrefetchFactor: 2})
		for epoch := range 2 {
			if err := l.Start(want); err != nil {
				t.Fatal(err)
			}
			if got := drainLoader(t, l); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d workers, epoch %d: %v", workers, epoch, got)
			}
		}
		l.Close()
	}
}

func TestEverySuffixIsTheRestOfTheEpoch(t *testing.T) {
	all := order(21)
	l := NewLoader(slowSet{n: 21, bad: -1}, LoaderConfig{BatchSize: 3, Workers: 2, PrefetchFactor: 2})
	defer l.Close()
	for k := range len(all) + 1 {
		if err := l.Start(all[k:]); err != nil {
			t.Fatal(err)
		}
		if got := drainLoader(t, l); fmt.Sprint(got) != fmt.Sprint(all[k:]) {
			t.Errorf("from %d: %v", k, got)
		}
	}
}

func TestDropLast(t *testing.T) {
	l := NewLoader(slowSet{n: 10, bad: -1}, LoaderConfig{BatchSize: 4, Workers: 1, PrefetchFactor: 1, DropLast: true})
	defer l.Close()
	if err := l.Start(order(10)); err != nil {
		t.Fatal(err)
	}
	if got := drainLoader(t, l); len(got) != 8 {
		t.Errorf("%d samples, want 8", len(got))
	}
}

func TestEpochLeftEarly(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, workers := range []int{0, 3} {
		l := NewLoader(slowSet{n: 40, bad: -1, most: time.Millisecond}, LoaderConfig{BatchSize: 4, Workers: workers, PrefetchFactor: 2})
		for range 3 {
			if err := l.Start(order(40)); err != nil {
				t.Fatal(err)
			}
			b, err := l.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		l.Close()
	}
}

func TestErrorComesInItsTurn(t *testing.T) {
	for _, workers := range []int{0, 3} {
		l := NewLoader(slowSet{n: 20, bad: 9, most: time.Millisecond}, LoaderConfig{BatchSize: 4, Workers: workers, PrefetchFactor: 2})
		ids := make([]int, 20)
		for i := range ids {
			ids[i] = i
		}
		if err := l.Start(ids); err != nil {
			t.Fatal(err)
		}
		for k := range 5 {
			b, err := l.Next(context.Background())
			if (err != nil) != (k == 2) {
				t.Errorf("%d workers: batch %d: %v", workers, k, err)
			}
			if err == nil {
				b.Release()
			}
		}
		l.Close()
	}
}

// stuckSet does not return from reading one sample until its gate is closed.
type stuckSet struct {
	slowSet
	stuck int
	gate  chan struct{}
}

func (s stuckSet) Read(i int, x []float32, tokens, y []int32) error {
	if i == s.stuck {
		<-s.gate
	}
	return s.slowSet.Read(i, x, tokens, y)
}

func TestTimeoutNamesTheSample(t *testing.T) {
	defer goleak.VerifyNone(t)
	gate := make(chan struct{})
	defer close(gate)
	l := NewLoader(stuckSet{slowSet{n: 4, bad: -1}, 3, gate}, LoaderConfig{BatchSize: 4, Workers: 1, PrefetchFactor: 1, Timeout: 20 * time.Millisecond})
	if err := l.Start([]int{1, 3, 0, 2}); err != nil {
		t.Fatal(err)
	}
	_, err := l.Next(context.Background())
	if err == nil || !strings.Contains(err.Error(), "still reading sample 3") || exitcode.Of(err) != exitcode.Data {
		t.Errorf("got %v", err)
	}
	// Nothing waits for the sample that is stuck.
	if again := l.Start([]int{0}); again != err {
		t.Errorf("Start gives %v", again)
	}
	l.Close()
}

func TestNextEndsWithItsContext(t *testing.T) {
	l := NewLoader(slowSet{n: 4, bad: -1, most: 100 * time.Millisecond}, LoaderConfig{BatchSize: 4, Workers: 1, PrefetchFactor: 1})
	defer l.Close()
	if err := l.Start([]int{0, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCloseDoesNotReadWhatIsNotWanted(t *testing.T) {
	defer goleak.VerifyNone(t)
	gate := make(chan struct{})
	set := &countingSet{stuckSet: stuckSet{slowSet{n: 100, bad: -1}, 0, gate}}
	l := NewLoader(set, LoaderConfig{BatchSize: 10, Workers: 1, PrefetchFactor: 8})
	ids := make([]int, 100)
	for i := range ids {
		ids[i] = i
	}
	if err := l.Start(ids); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }()
	for !l.dropped.Load() {
		time.Sleep(time.Millisecond)
	}
	close(gate)
	<-closed
	if n := set.reads.Load(); n > 1 {
		t.Errorf("%d samples read after the loader was closed", n-1)
	}
}

// countingSet counts its reads.
type countingSet struct {
	stuckSet
	reads atomic.Int64
}

func (s *countingSet) Read(i int, x []float32, tokens, y []int32) error {
	s.reads.Add(1)
	return s.stuckSet.Read(i, x, tokens, y)
}

func TestLoaderReadsNoFurtherAheadThanItMay(t *testing.T) {
	set := &countingSet{stuckSet: stuckSet{slowSet{n: 1000, bad: -1}, -1, nil}}
	l := NewLoader(set, LoaderConfig{BatchSize: 10, Workers: 3, PrefetchFactor: 2})
	defer l.Close()
	if err := l.Start(order(1000)); err != nil {
		t.Fatal(err)
	}
	for taken := int64(1); taken <= 100; taken++ {
		b, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n := set.reads.Load(); n > 10*(taken+3*2) {
			t.Fatalf("%d samples read when %d batches of 10 were taken", n, taken)
		}
		b.Release()
	}
}

func TestClosedLoaderRefuses(t *testing.T) {
	for _, workers := range []int{0, 2} {
		l := NewLoader(slowSet{n: 4, bad: -1}, LoaderConfig{BatchSize: 2, Workers: workers})
		l.Close()
		l.Close()
		if err := l.Start([]int{1}); err == nil {
			t.Error("a closed loader starts")
		}
		if _, err := l.Next(context.Background()); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a closed loader gives %v", err)
		}
	}
}

func TestSampleThatDoesNotExist(t *testing.T) {
	for _, workers := range []int{0, 2} {
		l := NewLoader(slowSet{n: 4, bad: -1}, LoaderConfig{BatchSize: 2, Workers: workers, PrefetchFactor: 1})
		if err := l.Start([]int{0, 1, 2, 4}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := l.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "no sample 4, the set has 4") {
			t.Errorf("got %v", err)
		}
		l.Close()
	}
}

func TestBatchesAreReused(t *testing.T) {
	l := NewLoader(slowSet{n: 64, bad: -1}, LoaderConfig{BatchSize: 4, Workers: 2, PrefetchFactor: 2})
	defer l.Close()
	seen := map[*Batch]bool{}
	for range 3 {
		if err := l.Start(order(64)); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := l.Next(context.Background())
			if err != nil {
				break
			}
			seen[b] = true
			b.Release()
		}
	}
	if len(seen) > 2*2+1 {
		t.Errorf("%d batches were made, %d can be in use", len(seen), 2*2+1)
	}
}

// BenchmarkStep is training with a step of about 1 ms: what batches of 64
// pictures add to it, in processor time of all goroutines.
func BenchmarkStep(b *testing.B) {
	const batch, pixels = 64, 784
	set := &images{shape: []int{28, 28}, pixels: make([]byte, 4096*pixels), labels: make([]byte, 4096)}
	ids := order(set.Len())
	for _, workers := range []int{-1, 0, 1, 2, 4} {
		name := fmt.Sprintf("workers %d", workers)
		if workers < 0 {
			name = "no loader"
		}
		b.Run(name, func(b *testing.B) {
			l := NewLoader(set, LoaderConfig{BatchSize: batch, Workers: workers, PrefetchFactor: 2})
			defer l.Close()
			begin := processorTime(b)
			for b.Loop() {
				if workers >= 0 {
					nextOf(b, l, ids).Release()
				}
				compute()
			}
			b.ReportMetric(float64(processorTime(b)-begin)/float64(b.N)/1e3, "cpu-us/op")
		})
	}
}

// compute takes about 1 ms.
func compute() float64 {
	x := 1.0
	for range 1_400_000 {
		x = x*0.999 + 0.001
	}
	return x
}

func nextOf(b *testing.B, l *Loader, ids []int) *Batch {
	got, err := l.Next(context.Background())
	if errors.Is(err, io.EOF) {
		if err := l.Start(ids); err != nil {
			b.Fatal(err)
		}
		got, err = l.Next(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkLoader(b *testing.B) {
	for _, workers := range []int{0, 2} {
		b.Run(fmt.Sprintf("workers %d", workers), func(b *testing.B) {
			s := newSynthetic(job.Synth{Shape: []int{784}, Classes: 10}, 0, 1<<16)
			l := NewLoader(s, LoaderConfig{BatchSize: 64, Workers: workers, PrefetchFactor: 2})
			defer l.Close()
			ids := order(1 << 16)
			for b.Loop() {
				batch, err := l.Next(context.Background())
				if err != nil {
					if err := l.Start(ids); err != nil {
						b.Fatal(err)
					}
					continue
				}
				batch.Release()
			}
		})
	}
}
