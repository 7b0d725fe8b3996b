package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/tensor"
)

func openDevice(t *testing.T) device.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// bench is a model with one batch, whose loss can be asked for again and
// again.
type bench struct {
	t       *testing.T
	d       device.Device
	m       Model
	tape    *Tape
	x       []float32
	tokens  []int32
	targets []int32
	src     Source
	n       int
	loss    Loss
}

func newBench(t *testing.T, m *job.Model, src Source, n int) *bench {
	t.Helper()
	d := openDevice(t)
	model, classes, err := Build(m, src, d)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, d: d, m: model, tape: NewTape(d), src: src, n: n}
	rng := rand.New(rand.NewPCG(7, 9))
	rows := n
	if src.Length > 0 {
		rows = n * src.Length
		b.tokens = make([]int32, rows)
		vocab := m.Vocab
		if vocab == 0 {
			vocab = m.Layers[0].Vocab
		}
		for i := range b.tokens {
			b.tokens[i] = int32(rng.IntN(vocab))
		}
	} else {
		b.x = make([]float32, n*tensor.Count(src.Features))
		for i := range b.x {
			b.x[i] = float32(rng.NormFloat64())
		}
	}
	b.targets = make([]int32, rows)
	for i := range b.targets {
		b.targets[i] = int32(rng.IntN(classes))
	}
	for _, p := range model.State().Params {
		if p.Grad, err = d.Alloc(p.Name+".grad", tensor.Float32, p.Shape...); err != nil {
			t.Fatal(err)
		}
		// Contents left from elsewhere must not be read.
		poison := make([]float32, p.Len())
		constant(float32(math.NaN()))(poison, nil)
		b.must(d.Upload(p.Grad, bytesOf(poison)))
		// Zero biases and unit gains would hide mistakes.
		values := b.read(p.Value)
		for i := range values {
			values[i] += float32(0.1 * rng.NormFloat64())
		}
		b.must(d.Upload(p.Value, bytesOf(values)))
	}
	b.loss.Sum, err = d.Alloc("loss", tensor.Float32, 1)
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(t *tensor.Tensor) []float32 {
	b.t.Helper()
	out := make([]float32, t.Len())
	b.must(b.d.Download(bytesOf(out), t))
	return out
}

// forward runs one pass and returns the mean loss.
func (b *bench) forward(train bool) float64 {
	b.t.Helper()
	if train {
		b.tape.Train(42)
	} else {
		b.tape.Evaluate()
	}
	targets := b.int32s(b.targets)
	in := Input{N: b.n, Length: b.src.Length}
	if b.tokens != nil {
		in.Tokens = b.int32s(b.tokens)
	} else {
		x, err := b.d.Alloc("x", tensor.Float32, append([]int{b.n}, b.src.Features...)...)
		b.must(err)
		b.must(b.d.Upload(x, bytesOf(b.x)))
		in.X = x
	}
	b.must(b.d.Zero(b.loss.Sum))
	CrossEntropy(b.tape, b.m.Forward(b.tape, in), targets, b.loss, 1/float32(len(b.targets)))
	b.must(b.tape.Err())
	return float64(b.read(b.loss.Sum)[0]) / float64(len(b.targets))
}

func (b *bench) int32s(v []int32) *tensor.Tensor {
	b.t.Helper()
	x, err := b.d.Alloc("tokens", tensor.Int32, len(v))
	b.must(err)
	b.must(b.d.Upload(x, bytesOf(v)))
	return x
}

// checkGradients compares every parameter's gradient with central differences
// of the loss at a few places.
func checkGradients(t *testing.T, m *job.Model, src Source, n int) {
	t.Helper()
	b := newBench(t, m, src, n)
	b.m.State().ClearGrads()
	fired := map[string]int{}
	b.tape.OnGrad = func(p *Param) { fired[p.Name]++ }
	b.forward(true)
	b.must(b.tape.Backward())
	b.tape.OnGrad = nil
	rng := rand.New(rand.NewPCG(3, 4))
	for _, p := range b.m.State().Params {
		if fired[p.Name] != 1 {
			t.Errorf("%s: its gradient was called final %d times", p.Name, fired[p.Name])
		}
		grad, values := b.read(p.Grad), b.read(p.Value)
		for range min(6, len(grad)) {
			i := rng.IntN(len(grad))
			want := b.difference(p, values, i)
			if diff := math.Abs(want - float64(grad[i])); !(diff <= 2e-3+0.03*math.Abs(want)) {
				t.Errorf("%s[%d]: gradient %g, differences give %g", p.Name, i, grad[i], want)
			}
		}
	}
}

func (b *bench) difference(p *Param, values []float32, i int) float64 {
	const eps = 4e-3
	was := values[i]
	at := func(v float32) float64 {
		values[i] = v
		b.must(b.d.Upload(p.Value, bytesOf(values)))
		return b.forward(true)
	}
	up, down := at(was+eps), at(was-eps)
	at(was)
	return (up - down) / (2 * eps)
}

func TestGradients(t *testing.T) {
	lin := func(name string, in, out int) job.Layer {
		return job.Layer{Op: "linear", Name: name, In: in, Out: out, Bias: true}
	}
	image := Source{Features: []int{2, 6, 6}}
	for _, c := range []struct {
		name   string
		layers []job.Layer
		src    Source
	}{
		{"linear", []job.Layer{lin("a", 5, 3)}, Source{Features: []int{5}}},
		{"linear without bias", []job.Layer{{Op: "linear", Name: "a", In: 5, Out: 3}}, Source{Features: []int{5}}},
		{"relu fused", []job.Layer{lin("a", 5, 8), {Op: "relu"}, lin("b", 8, 3)}, Source{Features: []int{5}}},
		{"gelu fused", []job.Layer{lin("a", 5, 8), {Op: "gelu"}, lin("b", 8, 3)}, Source{Features: []int{5}}},
		{"gelu alone", []job.Layer{lin("a", 5, 8), {Op: "layernorm", Name: "n", Features: 8, Eps: 1e-5}, {Op: "gelu"}, lin("b", 8, 3)}, Source{Features: []int{5}}},
		{"relu last", []job.Layer{lin("a", 5, 3), {Op: "relu"}}, Source{Features: []int{5}}},
		{"activation twice", []job.Layer{lin("a", 5, 8), {Op: "relu"}, {Op: "relu"}, lin("b", 8, 3)}, Source{Features: []int{5}}},
		{"dropout", []job.Layer{lin("a", 5, 8), {Op: "dropout", P: 0.4}, lin("b", 8, 3)}, Source{Features: []int{5}}},
		{"convolution", []job.Layer{
			{Op: "conv2d", Name: "c", In: 2, Out: 3, Kernel: 3, Stride: 1, Padding: 1, Bias: true},
			{Op: "gelu"},
			{Op: "conv2d", Name: "d", In: 3, Out: 2, Kernel: 3, Stride: 2, Bias: true},
			{Op: "flatten"},
			lin("a", 8, 3),
		}, image},
		{"batch norm", []job.Layer{
			{Op: "conv2d", Name: "c", In: 2, Out: 3, Kernel: 3, Stride: 1},
			{Op: "batchnorm2d", Name: "n", Features: 3, Eps: 1e-5, Momentum: 0.1},
			{Op: "relu"},
			{Op: "flatten"},
			lin("a", 48, 3),
		}, image},
		{"pools", []job.Layer{
			{Op: "conv2d", Name: "c", In: 2, Out: 3, Kernel: 3, Stride: 1, Padding: 1, Bias: true},
			{Op: "avgpool2d", Kernel: 2, Stride: 2},
			{Op: "conv2d", Name: "d", In: 3, Out: 4, Kernel: 2, Stride: 1, Bias: true},
			{Op: "global_avgpool"},
			{Op: "flatten"},
			lin("a", 4, 3),
		}, image},
		{"max pool", []job.Layer{
			{Op: "conv2d", Name: "c", In: 2, Out: 3, Kernel: 3, Stride: 1, Padding: 1, Bias: true}, {Op: "maxpool2d", Kernel: 2, Stride: 2}, {Op: "flatten"}, lin("a", 27, 3),
		}, image},
		{"reshape", []job.Layer{{Op: "reshape", Shape: []int{4, 18}}, lin("a", 18, 5), {Op: "flatten"}, lin("b", 20, 3)}, image},
		{"embedding", []job.Layer{{Op: "embedding", Name: "e", Vocab: 11, Width: 6}, lin("a", 6, 11)}, Source{Length: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkGradients(t, &job.Model{Type: "sequential", Layers: c.layers, Init: job.Init{Seed: 3}}, c.src, 4)
		})
	}
	for _, tied := range []bool{true, false} {
		t.Run(fmt.Sprintf("gpt2 tied %v", tied), func(t *testing.T) {
			m := &job.Model{Type: "gpt2", Depth: 2, Heads: 2, Width: 8, Context: 6, Vocab: 13, TieHead: tied, Dropout: 0.1, Init: job.Init{Seed: 3}}
			checkGradients(t, m, Source{Length: 6}, 3)
		})
	}
}

// Two passes without clearing add up to the sum of both.
func TestGradientsAccumulate(t *testing.T) {
	m := &job.Model{Type: "gpt2", Depth: 1, Heads: 2, Width: 8, Context: 6, Vocab: 13, TieHead: true, Init: job.Init{Seed: 3}}
	b := newBench(t, m, Source{Length: 6}, 3)
	once := map[string][]float32{}
	for pass := range 2 {
		if pass == 0 {
			b.m.State().ClearGrads()
		}
		b.forward(true)
		b.must(b.tape.Backward())
		for _, p := range b.m.State().Params {
			g := b.read(p.Grad)
			if pass == 0 {
				once[p.Name] = g
				continue
			}
			for i := range g {
				if math.Abs(float64(g[i]-2*once[p.Name][i])) > 1e-5 {
					t.Fatalf("%s[%d]: %g after one pass, %g after two", p.Name, i, once[p.Name][i], g[i])
				}
			}
		}
	}
}

// A pass gives back all the memory it took.
func TestTapeReleasesEverything(t *testing.T) {
	m := &job.Model{Type: "gpt2", Depth: 2, Heads: 2, Width: 8, Context: 6, Vocab: 13, TieHead: true, Dropout: 0.1, Init: job.Init{Seed: 3}}
	b := newBench(t, m, Source{Length: 6}, 3)
	run := func(backward bool) int {
		before := b.d.Stats().Allocated
		b.m.State().ClearGrads()
		b.forward(backward)
		if backward {
			b.must(b.tape.Backward())
		} else {
			b.tape.Reset()
		}
		return b.d.Stats().Allocated - before
	}
	// The bench itself keeps the two index tensors of a pass.
	index := run(false)
	for range 3 {
		if got := run(true); got != index {
			t.Errorf("a training pass keeps %d bytes, an evaluation %d", got, index)
		}
	}
	before := b.d.Stats().Allocated
	b.forward(true)
	b.tape.Reset()
	if got := b.d.Stats().Allocated - before; got != index {
		t.Errorf("a pass that is given up keeps %d bytes, want %d", got, index)
	}
}
