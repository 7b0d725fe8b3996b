package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

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

func TestTimeoutNamesTheSamples(t *testing.T) {
	l := NewLoader(slowSet{n: 4, bad: -1, most: time.Second}, LoaderConfig{BatchSize: 4, Workers: 1, PrefetchFactor: 1, Timeout: time.Millisecond})
	if err := l.Start([]int{3, 0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	_, err := l.Next(context.Background())
	if err == nil || !strings.Contains(err.Error(), "samples 3 ... 2") {
		t.Errorf("got %v", err)
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
