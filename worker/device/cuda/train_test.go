//go:build cuda

package cuda_test

import (
	"math"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/device/cuda"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/optim"
	"github.com/ddprun/ddprun/worker/tensor"
)

// training is a model with random batches.
type training struct {
	name    string
	model   *job.Model
	src     nn.Source
	samples int
	opt     job.Optimizer
}

var trainings = []training{
	{
		"gpt2", &job.Model{Type: "gpt2", Depth: 2, Heads: 2, Width: 48, Context: 24, Vocab: 61, TieHead: true, Init: job.Init{Seed: 3}},
		nn.Source{Length: 24},
		6,
		job.Optimizer{Type: "adamw", LR: 1e-3, Betas: [2]float64{0.9, 0.95}, Eps: 1e-8, WeightDecay: 0.1, Decay: "matrices"},
	},
	{
		"pictures", &job.Model{Type: "sequential", Init: job.Init{Seed: 4}, Layers: []job.Layer{
			{Op: "conv2d", Name: "conv1", In: 3, Out: 8, Kernel: 3, Stride: 1, Padding: 1, Bias: true},
			{Op: "batchnorm2d", Name: "bn1", Features: 8, Eps: 1e-5, Momentum: 0.1},
			{Op: "relu"},
			{Op: "maxpool2d", Kernel: 2, Stride: 2},
			{Op: "conv2d", Name: "conv2", In: 8, Out: 12, Kernel: 3, Stride: 2, Padding: 1},
			{Op: "gelu"},
			{Op: "avgpool2d", Kernel: 2, Stride: 1},
			{Op: "dropout", P: 0.25},
			{Op: "flatten"},
			{Op: "linear", Name: "fc1", In: 108, Out: 40, Bias: true},
			{Op: "layernorm", Name: "ln", Features: 40, Eps: 1e-5},
			{Op: "relu"},
			{Op: "linear", Name: "fc2", In: 40, Out: 10, Bias: true},
		}},
		nn.Source{Features: []int{3, 16, 16}},
		20,
		job.Optimizer{Type: "sgd", LR: 0.05, Momentum: 0.9, Nesterov: true, WeightDecay: 1e-3},
	},
}

// run trains for some steps and returns the mean loss of each.
func (tr training) run(t *testing.T, d device.Device, steps int) (losses []float64, params []float32) {
	t.Helper()
	b := newBench(t, d)
	model, classes, err := nn.Build(tr.model, tr.src, d)
	b.ok(err)
	ps := model.State()
	for _, p := range ps.Params {
		p.Grad, err = d.Alloc(p.Name+".grad", tensor.Float32, p.Shape...)
		b.ok(err)
	}
	opt, err := optim.New(tr.opt, d, ps.Params)
	b.ok(err)
	tape := nn.NewTape(d)
	loss := nn.Loss{Sum: b.zeroed(tensor.Float32, 1)}
	for step := range steps {
		in, rows := nn.Input{N: tr.samples, Length: tr.src.Length}, tr.samples
		if tr.src.Length > 0 {
			rows *= tr.src.Length
			in.Tokens = b.below(tr.model.Vocab, rows)
		} else {
			in.X = b.float(append([]int{tr.samples}, tr.src.Features...)...)
		}
		targets := b.below(classes, rows)
		b.ok(d.Zero(loss.Sum))
		tape.Train(uint64(step))
		ps.ClearGrads()
		nn.CrossEntropy(tape, model.Forward(tape, in), targets, loss, 1/float32(rows))
		b.ok(tape.Backward())
		b.ok(opt.Step(tr.opt.LR, 1, func(*nn.Param) bool { return false }))
		losses = append(losses, float64(b.read(loss.Sum)[0])/float64(rows))
		tape.Reset()
	}
	return losses, b.read(ps.FlatParams())
}

// TestTrainsAsTheCPU trains the same model on both devices.
func TestTrainsAsTheCPU(t *testing.T) {
	c, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gpu := open(t, cuda.Options{})
	for _, tr := range trainings {
		t.Run(tr.name, func(t *testing.T) {
			want, wantParams := tr.run(t, c, 8)
			got, gotParams := tr.run(t, gpu, 8)
			t.Logf("losses on the CPU %.6f", want)
			t.Logf("losses on the GPU %.6f", got)
			for i := range want {
				if d := math.Abs(got[i] - want[i]); !(d <= 1e-4*want[i]) {
					t.Errorf("step %d: loss %g, on the CPU %g", i, got[i], want[i])
				}
			}
			if want[7] == want[0] {
				t.Error("nothing was learnt")
			}
			if f := far(gotParams, wantParams); f > 1e-3 {
				t.Errorf("parameters are %.2g away", f)
			}
		})
	}
}

// TestTrainingFillsNothing trains longer: the device's memory must not grow.
func TestTrainingFillsNothing(t *testing.T) {
	gpu := open(t, cuda.Options{})
	trainings[0].run(t, gpu, 3)
	before := gpu.Stats().Reserved
	trainings[0].run(t, gpu, 60)
	if after := gpu.Stats().Reserved; after > before+64<<20 {
		t.Errorf("%d bytes are reserved after 60 more steps, %d before", after, before)
	}
}

// TestTF32 rounds factors to 10 bits of mantissa, and no further.
func TestTF32(t *testing.T) {
	exact, rounded := newBench(t, open(t, cuda.Options{})), newBench(t, open(t, cuda.Options{TF32: true}))
	product := func(b *bench) []float32 {
		out := b.float(512, 512)
		b.ok(b.MatMul(device.MatMulArgs{Out: out, A: b.float(512, 512), B: b.float(512, 512)}))
		return b.read(out)
	}
	f := far(product(rounded), product(exact))
	t.Logf("tf32 is %.2g away", f)
	if f > 3e-3 {
		t.Errorf("tf32 is %.2g away", f)
	}
}
