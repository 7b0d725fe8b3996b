package nn

import (
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
)

func TestLayersThatDoNotFit(t *testing.T) {
	d := openDevice(t)
	image := Source{Features: []int{1, 8, 8}}
	for _, c := range []struct {
		name   string
		layers []job.Layer
		src    Source
		want   string
	}{
		{"width", []job.Layer{{Op: "linear", Name: "a", In: 5, Out: 3}}, Source{Features: []int{4}}, "wants 5 features in the last dimension, gets [4]"},
		{"plane", []job.Layer{{Op: "conv2d", Name: "c", In: 1, Out: 2, Kernel: 3, Stride: 1}}, Source{Features: []int{64}}, "is a reshape missing?"},
		{"channels", []job.Layer{{Op: "conv2d", Name: "c", In: 3, Out: 2, Kernel: 3, Stride: 1}}, image, "wants 3 channels, gets [1 8 8]"},
		{"kernel", []job.Layer{{Op: "maxpool2d", Kernel: 9, Stride: 9}}, image, "at least 9 rows"},
		{"reshape", []job.Layer{{Op: "reshape", Shape: []int{5, 5}}}, image, "25 elements"},
		{"not flat", []job.Layer{{Op: "relu"}}, image, "is a flatten missing?"},
		{"tokens", []job.Layer{{Op: "linear", Name: "a", In: 5, Out: 3}}, Source{Length: 8}, "first layer must be an embedding"},
		{"twice", []job.Layer{{Op: "linear", Name: "a", In: 4, Out: 4}, {Op: "linear", Name: "a", In: 4, Out: 4}}, Source{Features: []int{4}}, "two parameters are named a.weight"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Build(&job.Model{Type: "sequential", Layers: c.layers}, c.src, d)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStartingValuesAreAFunctionOfTheSeed(t *testing.T) {
	m := &job.Model{Type: "gpt2", Depth: 1, Heads: 2, Width: 8, Context: 4, Vocab: 9, Init: job.Init{Seed: 5}}
	a, b := newBench(t, m, Source{Length: 4}, 1), newBench(t, m, Source{Length: 4}, 1)
	x, y := a.read(a.m.State().FlatParams()), b.read(b.m.State().FlatParams())
	for i := range x {
		if x[i] != y[i] {
			t.Fatalf("value %d: %g and %g", i, x[i], y[i])
		}
	}
}
