package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/tensor"
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

// One value a channel has no variance: training on it is refused before the
// running statistics become NaN, evaluating it is fine.
func TestBatchNormOfOneValue(t *testing.T) {
	d := openDevice(t)
	layers := []job.Layer{
		{Op: "global_avgpool"},
		{Op: "batchnorm2d", Name: "bn", Features: 2, Eps: 1e-5, Momentum: 0.1},
		{Op: "flatten"},
		{Op: "linear", Name: "fc", In: 2, Out: 3},
	}
	m, _, err := Build(&job.Model{Type: "sequential", Layers: layers}, Source{Features: []int{2, 4, 4}}, d)
	if err != nil {
		t.Fatal(err)
	}
	tape := NewTape(d)
	forward := func(samples int) error {
		x, err := d.Alloc("x", tensor.Float32, samples, 2, 4, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Zero(x); err != nil {
			t.Fatal(err)
		}
		m.Forward(tape, Input{X: x, N: samples})
		defer tape.Reset()
		return tape.Err()
	}
	tape.Train(1)
	if err := forward(2); err != nil {
		t.Errorf("two samples: %v", err)
	}
	tape.Train(1)
	if err := forward(1); err == nil || !strings.Contains(err.Error(), "bn: ") || !strings.Contains(err.Error(), "loader.drop_last") {
		t.Errorf("one sample: %v", err)
	}
	tape.Evaluate()
	if err := forward(1); err != nil {
		t.Errorf("one sample to evaluate: %v", err)
	}
	for _, b := range m.State().Buffers {
		for i, v := range b.Value.Float32s() {
			if math.IsNaN(float64(v)) {
				t.Errorf("%s[%d] is NaN", b.Name, i)
			}
		}
	}
}
