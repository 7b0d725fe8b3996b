package devicetest

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

// group is a list of parameters with their gradients, and their values.
type group struct {
	params, grads []T
	p, g          [][]float64
}

var paramSizes = []int{1, 7, 64, 1001}

func (s *suite) group() group {
	var out group
	for i, n := range paramSizes {
		p, pv := s.tensor(fmt.Sprint("p", i), n)
		g, gv := s.tensor(fmt.Sprint("g", i), n)
		out.params, out.p = append(out.params, p), append(out.p, pv)
		out.grads, out.g = append(out.grads, g), append(out.g, gv)
	}
	return out
}

// states is one buffer for each parameter, filled with fill.
func (s *suite) states(name string, fill float64) ([]T, [][]float64) {
	var ts []T
	var vs [][]float64
	for i, n := range paramSizes {
		ts = append(ts, s.upload(fmt.Sprint(name, i), constant(n, fill), n))
		vs = append(vs, constant(n, fill))
	}
	return ts, vs
}

func testSGD(s *suite) {
	for _, a := range []device.SGDArgs{
		{LR: 0.1, GradScale: 1},
		{LR: 0.1, GradScale: 0.5, WeightDecay: 0.01},
		{LR: 0.1, GradScale: 1, Mu: 0.9},
		{LR: 0.05, GradScale: 0.25, Mu: 0.9, WeightDecay: 0.1, Nesterov: true},
	} {
		name := fmt.Sprintf("mu %g, decay %g, nesterov %v", a.Mu, a.WeightDecay, a.Nesterov)
		g := s.group()
		a.Params, a.Grads = g.params, g.grads
		var momentum [][]float64
		if a.Mu != 0 {
			// What is in the buffers before the first step must not count.
			a.Momentum, momentum = s.states("m", math.NaN())
		}
		for step := range 3 {
			a.First = step == 0
			twinSGD(a, g, momentum)
			s.ok(s.dev.SGD(a))
			for i, t := range g.params {
				s.near(fmt.Sprintf("%s: parameter %d, step %d", name, i, step), t, g.p[i])
				if momentum != nil {
					s.near(name+" momentum", a.Momentum[i], momentum[i])
				}
			}
		}
	}
}

// twinSGD is torch.optim.SGD with dampening 0.
func twinSGD(a device.SGDArgs, g group, momentum [][]float64) {
	lr, mu := float64(a.LR), float64(a.Mu)
	for i, p := range g.p {
		for j := range p {
			d := g.g[i][j]*float64(a.GradScale) + float64(a.WeightDecay)*p[j]
			if mu != 0 {
				if a.First {
					momentum[i][j] = d
				} else {
					momentum[i][j] = mu*momentum[i][j] + d
				}
				if a.Nesterov {
					d += mu * momentum[i][j]
				} else {
					d = momentum[i][j]
				}
			}
			p[j] -= lr * d
		}
	}
}

func testAdam(s *suite) {
	for _, decoupled := range []bool{false, true} {
		for _, decay := range [][]float32{nil, {0.1, 0, 0.01, 0.3}} {
			name := fmt.Sprintf("decoupled %v, decay %v", decoupled, decay)
			g := s.group()
			a := device.AdamArgs{
				Params: g.params, Grads: g.grads, LR: 0.01, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
				WeightDecay: decay, Decoupled: decoupled, GradScale: 0.5,
			}
			var m1, m2 [][]float64
			a.Moment1, m1 = s.states("m", 0)
			a.Moment2, m2 = s.states("v", 0)
			for a.Step = 1; a.Step <= 4; a.Step++ {
				twinAdam(a, g, m1, m2)
				s.ok(s.dev.Adam(a))
				for i, t := range g.params {
					s.near(fmt.Sprintf("%s: parameter %d, step %d", name, i, a.Step), t, g.p[i])
					s.near(name+" first moment", a.Moment1[i], m1[i])
					s.near(name+" second moment", a.Moment2[i], m2[i])
				}
			}
		}
	}
}

// twinAdam is torch.optim.Adam, or AdamW when Decoupled.
func twinAdam(a device.AdamArgs, g group, m1, m2 [][]float64) {
	lr, b1, b2 := float64(a.LR), float64(a.Beta1), float64(a.Beta2)
	c1, c2 := 1-math.Pow(b1, float64(a.Step)), 1-math.Pow(b2, float64(a.Step))
	for i, p := range g.p {
		var decay float64
		if a.WeightDecay != nil {
			decay = float64(a.WeightDecay[i])
		}
		for j := range p {
			d := g.g[i][j] * float64(a.GradScale)
			if a.Decoupled {
				p[j] -= lr * decay * p[j]
			} else {
				d += decay * p[j]
			}
			m1[i][j] = b1*m1[i][j] + (1-b1)*d
			m2[i][j] = b2*m2[i][j] + (1-b2)*d*d
			p[j] -= lr / c1 * m1[i][j] / (math.Sqrt(m2[i][j]/c2) + float64(a.Eps))
		}
	}
}

func testOptimizerErrors(s *suite) {
	g := s.group()
	m, _ := s.states("m", 0)
	sgd := device.SGDArgs{Params: g.params, Grads: g.grads[:3], LR: 1, GradScale: 1}
	s.refuses(s.dev.SGD(sgd), "sgd", "3", "4")
	sgd.Grads = []T{g.grads[0], g.grads[2], g.grads[1], g.grads[3]}
	s.refuses(s.dev.SGD(sgd), "p1", "[7]", "[64]")
	sgd.Grads, sgd.Mu = g.grads, 0.9
	s.refuses(s.dev.SGD(sgd), "Momentum")
	sgd.Mu, sgd.Nesterov = 0, true
	s.refuses(s.dev.SGD(sgd), "Nesterov")
	sgd.Nesterov, sgd.Params = false, []T{g.params[0], s.foreign(7), g.params[2], g.params[3]}
	s.refuses(s.dev.SGD(sgd), "alien", "cuda:63")

	adam := device.AdamArgs{Params: g.params, Grads: g.grads, Moment1: m, Moment2: m, LR: 1, GradScale: 1}
	s.refuses(s.dev.Adam(adam), "adam", "Step")
	adam.Step, adam.WeightDecay = 1, []float32{0.1}
	s.refuses(s.dev.Adam(adam), "WeightDecay", "1", "4")
	adam.WeightDecay, adam.Moment2 = nil, m[:2]
	s.refuses(s.dev.Adam(adam), "Moment2", "2", "4")
	for i, t := range g.params {
		s.near("parameter after the errors", t, g.p[i])
	}
	_, err := s.dev.SumSquares([]T{g.params[0], s.foreign(7)})
	s.refuses(err, "alien", "cuda:63")
	_, err = s.dev.SumSquares([]T{s.ints("whole", []int{1}, 1)})
	s.refuses(err, "whole", "int32")
}

func testSumSquares(s *suite) {
	g := s.group()
	var want float64
	for _, v := range g.p {
		for _, x := range v {
			want += x * x
		}
	}
	got, err := s.dev.SumSquares(g.params)
	s.ok(err)
	if math.Abs(got-want) > 1e-9*want+s.tol.Rel*want/100 {
		s.Errorf("sum of squares is %.12g, want %.12g", got, want)
	}
	if got, err = s.dev.SumSquares(nil); got != 0 || err != nil {
		s.Errorf("sum of nothing is %g, %v", got, err)
	}
	// 1 + 2^24 ones would stick at 2^24 in float32.
	const n = 1<<16 + 1
	many := []T{s.upload("big", []float64{4096}, 1), s.upload("ones", constant(n, 1), n)}
	if got, err = s.dev.SumSquares(many); err != nil || got != 1<<24+n {
		s.Errorf("sum of squares is %.1f, want %d, %v", got, 1<<24+n, err)
	}
	nan := s.upload("nan", []float64{1, math.NaN(), 1}, 3)
	if got, err = s.dev.SumSquares([]T{nan}); err != nil || !math.IsNaN(got) {
		s.Errorf("sum of squares with a NaN is %g, %v", got, err)
	}
	inf := s.upload("inf", []float64{1, math.Inf(-1)}, 2)
	if got, err = s.dev.SumSquares([]T{inf}); err != nil || !math.IsInf(got, 1) {
		s.Errorf("sum of squares with an infinity is %g, %v", got, err)
	}
}
