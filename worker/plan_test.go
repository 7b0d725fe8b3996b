package worker

import (
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
	if dropoutSeed(1, 2, 3, 4) != dropoutSeed(1, 2, 3, 4) {
		t.Error("the seed of a pass changes when it is repeated")
	}
}
