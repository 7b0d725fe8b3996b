package devicetest

import (
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

var lengths = []int{1, 2, 7, 8, 31, 64, 1003}

func testBiasGrad(s *suite) {
	for _, shape := range [][]int{{1, 1}, {5, 3}, {1, 40}, {40, 1}, {2, 3, 33}, {300, 10}} {
		n := shape[len(shape)-1]
		dout, v := s.tensor("dout", shape...)
		dbias, before := s.tensor("dbias", n)
		s.ok(s.dev.BiasGrad(dbias, dout, true))
		s.near("added", dbias, twinAdd(before, twinSumRows(v, n)))
		s.ok(s.dev.BiasGrad(dbias, dout, false))
		s.near("overwritten", dbias, twinSumRows(v, n))
	}
}

// spread is n random numbers, most small, some large enough to saturate.
func (s *suite) spread(n int) []float64 {
	x := s.random(n)
	for i := range x {
		x[i] = f32(x[i] * []float64{1, 3, 10, 100}[i%4])
	}
	return x
}

func testActivate(s *suite) {
	for _, act := range acts {
		for _, n := range lengths {
			v := s.spread(n)
			want := mapped(v, func(x float64) float64 { return twinAct(act, x) })
			x, out := s.upload("x", v, n), s.alloc("out", n)
			s.ok(s.dev.Activate(out, x, act))
			s.near(act.String(), out, want)
			s.ok(s.dev.Activate(x, x, act))
			s.near(act.String()+" in place", x, want)
		}
		x := s.upload("x", []float64{0, math.NaN(), 1e4, -1e4}, 4)
		s.ok(s.dev.Activate(x, x, act))
		s.near(act.String()+" of 0, NaN and far out", x, mapped([]float64{0, math.NaN(), 1e4, -1e4}, func(x float64) float64 { return twinAct(act, x) }))
	}
}

func testActivateGrad(s *suite) {
	for _, act := range acts {
		for _, n := range lengths {
			v := s.spread(n)
			at := s.upload("at", v, n)
			dout, g := s.tensor("dout", n)
			want := make([]float64, n)
			for i := range want {
				want[i] = g[i] * twinActGrad(act, v[i])
			}
			dx := s.alloc("dx", n)
			s.ok(s.dev.ActivateGrad(dx, dout, at, act))
			s.near(act.String(), dx, want)
			s.ok(s.dev.ActivateGrad(dout, dout, at, act))
			s.near(act.String()+" in place", dout, want)
		}
	}
	at, dout := s.upload("at", []float64{0, -0.5, 2}, 3), s.upload("dout", constant(3, 5), 3)
	s.ok(s.dev.ActivateGrad(dout, dout, at, device.ReLU))
	s.near("relu at 0", dout, []float64{0, 0, 5})
}

func testAddScale(s *suite) {
	for _, n := range lengths {
		a, av := s.tensor("a", n)
		b, bv := s.tensor("b", n)
		out := s.alloc("out", n)
		sum := twinAdd(av, bv)
		s.ok(s.dev.Add(out, a, b))
		s.near("sum", out, sum)
		s.ok(s.dev.Add(a, a, b))
		s.near("sum in a", a, sum)
		s.ok(s.dev.Add(b, out, b))
		s.near("sum in b", b, twinAdd(sum, bv))
		s.ok(s.dev.Add(out, out, out))
		s.near("doubled", out, twinAdd(sum, sum))
		s.ok(s.dev.Scale(a, -0.25))
		s.near("scaled", a, mapped(sum, func(x float64) float64 { return -0.25 * x }))
	}
}

func testElementwiseErrors(s *suite) {
	a, odd, whole := s.alloc("a", 2, 3), s.alloc("odd", 3, 2), s.ints("whole", make([]int, 6), 2, 3)
	s.refuses(s.dev.Add(a, a, odd), "odd", "[3 2]", "[2 3]", "add")
	s.refuses(s.dev.Add(odd, a, a), "odd", "[3 2]", "[2 3]")
	s.refuses(s.dev.Add(a, whole, a), "whole", "int32", "float32")
	s.refuses(s.dev.Add(a, a, s.foreign(2, 3)), "alien", "cuda:63")
	s.refuses(s.dev.Add(a, nil, a))
	s.refuses(s.dev.Scale(whole, 2), "whole", "int32")
	s.refuses(s.dev.Scale(s.foreign(2), 2), "alien", "cuda:63")
	s.refuses(s.dev.Activate(odd, a, device.ReLU), "odd", "[3 2]", "[2 3]")
	s.refuses(s.dev.Activate(a, a, 99), "activation")
	s.refuses(s.dev.ActivateGrad(a, a, odd, device.ReLU), "odd", "[3 2]", "[2 3]")
	s.refuses(s.dev.ActivateGrad(a, a, nil, device.ReLU))
	s.refuses(s.dev.BiasGrad(s.alloc("short", 2), a, false), "short", "[2]", "[3]")
	s.refuses(s.dev.BiasGrad(nil, a, false))
	s.refuses(s.dev.BiasGrad(s.foreign(3), a, false), "alien", "cuda:63")
}
