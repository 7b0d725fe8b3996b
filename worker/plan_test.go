package worker

import (
	"math"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
)

func TestPlanFor(t *testing.T) {
	for _, c := range []struct {
		name                 string
		samples, batch, accu int
		dropLast             bool
		epochs, steps        int
		perEpoch, total      int
	}{
		{"short last batch counts", 360, 32, 1, false, 3, 0, 12, 36},
		{"short last batch dropped", 360, 32, 1, true, 3, 0, 11, 33},
		{"short last window counts", 360, 32, 5, false, 2, 0, 3, 6},
		{"steps win", 360, 32, 1, false, 0, 50, 12, 50},
		{"one batch", 3, 32, 4, false, 7, 0, 1, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &job.Job{Train: &job.Train{Epochs: c.epochs, Steps: c.steps, BatchSize: c.batch, Accumulate: c.accu}}
			j.Loader.DropLast = c.dropLast
			if p := planFor(j, c.samples); p.stepsPerEpoch != c.perEpoch || p.total != c.total {
				t.Errorf("%d steps an epoch, %d in all; want %d and %d", p.stepsPerEpoch, p.total, c.perEpoch, c.total)
			}
		})
	}
}

func TestPlanAfterResume(t *testing.T) {
	for _, c := range []struct {
		name           string
		epochs, steps  int
		accumulate     int
		dropLast       bool
		at             position
		samples, rest  int // of a rank, in an epoch and in what is left of this one
		total, atStart int
	}{
		// 1437 samples, batch 32; 4 ranks make 12 steps an epoch, 1 rank 45.
		{"same world", 3, 0, 1, false, position{step: 18, epoch: 1, consumed: 768}, 360, 168, 36, 36},
		{"4 to 1", 3, 0, 1, false, position{step: 18, epoch: 1, consumed: 768}, 1437, 669, 18 + 21 + 45, 135},
		{"1 to 4", 3, 0, 1, false, position{step: 100, epoch: 2, consumed: 320}, 360, 280, 109, 36},
		{"accumulate", 3, 0, 2, false, position{step: 8, epoch: 1, consumed: 256}, 360, 296, 8 + 5 + 6, 18},
		{"nothing fills a batch", 3, 0, 1, true, position{step: 23, epoch: 1, consumed: 1400}, 1437, 20, 23 + 44, 132},
		{"finished", 3, 0, 1, false, position{step: 36, epoch: 3}, 360, 360, 36, 36},
		{"fewer epochs than done", 2, 0, 1, false, position{step: 36, epoch: 3}, 360, 360, 36, 24},
		{"steps", 0, 50, 1, false, position{step: 18, epoch: 1, consumed: 768}, 1437, 669, 50, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &job.Job{Train: &job.Train{Epochs: c.epochs, Steps: c.steps, BatchSize: 32, Accumulate: c.accumulate}}
			j.Loader.DropLast = c.dropLast
			p := planFor(j, c.samples)
			if p.total != c.atStart {
				t.Errorf("%d steps from scratch, want %d", p.total, c.atStart)
			}
			if got := p.after(j, c.at, c.rest); got != c.total {
				t.Errorf("%d steps, want %d", got, c.total)
			}
		})
	}
}

func TestFirstNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		values []float32
		want   int
	}{
		{nil, -1},
		{[]float32{0, -1, math.MaxFloat32, math.SmallestNonzeroFloat32}, -1},
		{[]float32{1, nan}, 1},
		{[]float32{1, 2, inf, nan}, 2},
	} {
		if got := firstNonFinite(bytesOf(c.values)); got != c.want {
			t.Errorf("%v: %d, want %d", c.values, got, c.want)
		}
	}
}

func TestDropoutSeedsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for step := range 20 {
		for micro := range 4 {
			for rank := range 8 {
				seen[dropoutSeed(1, step, micro, rank)] = true
			}
		}
	}
	if len(seen) != 20*4*8 {
		t.Errorf("%d different seeds, want %d", len(seen), 20*4*8)
	}
	if first := dropoutSeed(1, 2, 3, 4); dropoutSeed(1, 2, 3, 4) != first {
		t.Error("the seed of a pass changes when it is repeated")
	}
}
