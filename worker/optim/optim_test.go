package optim

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/tensor"
)

func TestLR(t *testing.T) {
	constant, linear := job.Schedule{Type: "constant", WarmupSteps: 4}, job.Schedule{Type: "linear", WarmupSteps: 2, MinLR: 0.2}
	cosine, step := job.Schedule{Type: "cosine", MinLR: 0.2}, job.Schedule{Type: "step", StepSize: 3, Gamma: 0.1, MinLR: 0.005, WarmupSteps: 1}
	for _, c := range []struct {
		s           job.Schedule
		step, total int
		want        float64
	}{
		{constant, 0, 10, 0.25},
		{constant, 3, 10, 1},
		{constant, 9, 10, 1},
		{linear, 0, 10, 0.5},
		{linear, 1, 10, 1},
		{linear, 2, 10, 1},
		{linear, 6, 10, 0.6},
		{linear, 9, 10, 0.3},
		{linear, 10, 10, 0.2},
		{linear, 99, 10, 0.2},
		{cosine, 0, 10, 1},
		{cosine, 5, 10, 0.6},
		{cosine, 9, 10, 0.2 + 0.8*(1+math.Cos(0.9*math.Pi))/2},
		{cosine, 11, 10, 0.2},
		{step, 0, 10, 1},
		{step, 3, 10, 1},
		{step, 4, 10, 0.1},
		{step, 7, 10, 0.01},
		{step, 10, 10, 0.005},
		{linear, 5, 1, 0.2}, // a run that is all warm-up, and over
	} {
		if got := LR(c.s, 1, c.step, c.total); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s, step %d of %d: %g, want %g", c.s.Type, c.step, c.total, got, c.want)
		}
	}
}

func TestClipScale(t *testing.T) {
	for _, c := range []struct{ norm, limit, want float64 }{
		{5, 0, 1}, {0.5, 1, 1}, {4, 1, 1 / (4 + 1e-6)}, {0, 1, 1}, {math.NaN(), 1, 1}, {math.Inf(1), 1, 1},
	} {
		if got := ClipScale(c.norm, c.limit); got != c.want {
			t.Errorf("norm %g, limit %g: %g, want %g", c.norm, c.limit, got, c.want)
		}
	}
}

// twin is the update of one parameter in plain float64, as PyTorch documents
// it (torch.optim.SGD, Adam, AdamW).
type twin struct {
	p, m, v []float64
	steps   int
}

func (w *twin) step(c job.Optimizer, g []float64, lr, decay float64) {
	w.steps++
	for i := range w.p {
		d := g[i]
		if c.Type != "adamw" {
			d += decay * w.p[i]
		}
		if c.Type == "sgd" {
			w.m[i] = c.Momentum*w.m[i] + d
			if c.Nesterov {
				d += c.Momentum * w.m[i]
			} else if c.Momentum != 0 {
				d = w.m[i]
			}
			w.p[i] -= lr * d
			continue
		}
		if c.Type == "adamw" {
			w.p[i] -= lr * decay * w.p[i]
		}
		w.m[i] = c.Betas[0]*w.m[i] + (1-c.Betas[0])*d
		w.v[i] = c.Betas[1]*w.v[i] + (1-c.Betas[1])*d*d
		m := w.m[i] / (1 - math.Pow(c.Betas[0], float64(w.steps)))
		v := w.v[i] / (1 - math.Pow(c.Betas[1], float64(w.steps)))
		w.p[i] -= lr * m / (math.Sqrt(v) + c.Eps)
	}
}

func TestStepAgainstTwin(t *testing.T) {
	betas := [2]float64{0.9, 0.95}
	for name, c := range map[string]job.Optimizer{
		"sgd":                {Type: "sgd", Decay: "all"},
		"sgd momentum":       {Type: "sgd", Momentum: 0.9, WeightDecay: 0.1, Decay: "all"},
		"sgd nesterov":       {Type: "sgd", Momentum: 0.9, Nesterov: true, WeightDecay: 0.1, Decay: "matrices"},
		"adam":               {Type: "adam", Betas: betas, Eps: 1e-8, WeightDecay: 0.1, Decay: "all"},
		"adamw":              {Type: "adamw", Betas: betas, Eps: 1e-8, WeightDecay: 0.1, Decay: "all"},
		"adamw for matrices": {Type: "adamw", Betas: betas, Eps: 1e-8, WeightDecay: 0.1, Decay: "matrices"},
	} {
		t.Run(name, func(t *testing.T) {
			d, params := someParams(t)
			o, err := New(c, d, params)
			if err != nil {
				t.Fatal(err)
			}
			twins := make([]twin, len(params))
			for i, p := range params {
				n := p.Len()
				twins[i] = twin{p: wide(p.Value.Float32s()), m: make([]float64, n), v: make([]float64, n)}
			}
			// The second parameter sits out one step, as one that no rank used. Adam's
			// count of steps is one for all parameters.
			for k := range 4 {
				skip := func(p *nn.Param) bool { return k == 2 && p == params[1] }
				for i, p := range params {
					g := p.Grad.Float32s()
					for j := range g {
						g[j] = float32(math.Sin(float64(7*k+3*i+j))) * 2
					}
					scaled := wide(g)
					for j := range scaled {
						scaled[j] *= 0.5
					}
					decay := c.WeightDecay
					if c.Decay == "matrices" && len(p.Shape) < 2 {
						decay = 0
					}
					if skip(p) {
						twins[i].steps++
						continue
					}
					twins[i].step(c, scaled, 0.01, decay)
				}
				if err := o.Step(0.01, 0.5, skip); err != nil {
					t.Fatal(err)
				}
			}
			for i, p := range params {
				for j, v := range p.Value.Float32s() {
					if math.Abs(float64(v)-twins[i].p[j]) > 2e-6 {
						t.Errorf("%s[%d] = %g, want %g", p.Name, j, v, twins[i].p[j])
					}
				}
			}
			if o.Steps() != 4 {
				t.Errorf("%d steps, want 4", o.Steps())
			}
		})
	}
}

func TestStateIsNamedAsInTorch(t *testing.T) {
	for kind, want := range map[string][]string{
		"sgd":  {"w.weight.momentum_buffer", "w.bias.momentum_buffer"},
		"adam": {"w.weight.exp_avg", "w.bias.exp_avg", "w.weight.exp_avg_sq", "w.bias.exp_avg_sq"},
	} {
		d, params := someParams(t)
		o, err := New(job.Optimizer{Type: kind, Momentum: 0.9, Decay: "all"}, d, params)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range o.State() {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %v, want %v", kind, names, want)
		}
	}
	d, params := someParams(t)
	if o, err := New(job.Optimizer{Type: "sgd", Decay: "all"}, d, params); err != nil || len(o.State()) != 0 {
		t.Errorf("sgd without momentum keeps state: %v", err)
	}
	if _, err := New(job.Optimizer{Type: "lamb"}, d, params); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

// someParams is a matrix and a vector with values.
func someParams(t *testing.T) (device.Device, []*nn.Param) {
	t.Helper()
	d, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	params := []*nn.Param{{Name: "w.weight", Shape: []int{3, 5}}, {Name: "w.bias", Shape: []int{5}}}
	for i, p := range params {
		for _, to := range []**tensor.Tensor{&p.Value, &p.Grad} {
			if *to, err = d.Alloc(p.Name, tensor.Float32, p.Shape...); err != nil {
				t.Fatal(err)
			}
		}
		values := make([]float32, p.Len())
		for j := range values {
			values[j] = float32(math.Cos(float64(i + j)))
		}
		if err := d.Upload(p.Value, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))); err != nil {
			t.Fatal(err)
		}
	}
	return d, params
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i := range v {
		w[i] = float64(v[i])
	}
	return w
}
