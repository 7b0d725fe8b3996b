package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// elementwiseCase is a function whose result at i depends on its slices at i
// alone. want maps the elements before to the elements after the call.
type elementwiseCase struct {
	name     string
	slices   int
	run      func(s [][]float32)
	want     func(e []float64)
	rel, abs float64
}

func sq(x float64) float64 { return x * x }

func geluTanh64(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func geluErf64(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

// slope is the central difference of f.
func slope(f func(float64) float64, x float64) float64 {
	const h = 1e-5
	return (f(x+h) - f(x-h)) / (2 * h)
}

func relu64(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func sgd64(e []float64, a SGDArgs, gscale float64) {
	d := gscale*e[1] + a.WeightDecay*e[0]
	if a.First {
		e[2] = d
	} else {
		e[2] = a.Momentum*e[2] + (1-a.Dampening)*d
	}
	if a.Nesterov {
		d += a.Momentum * e[2]
	} else {
		d = e[2]
	}
	e[0] -= a.LR * d
}

func adam64(e []float64, a AdamArgs, gscale float64, decoupled bool) {
	d := gscale * e[1]
	if decoupled {
		e[0] *= 1 - a.LR*a.WeightDecay
	} else {
		d += a.WeightDecay * e[0]
	}
	e[2] = a.Beta1*e[2] + (1-a.Beta1)*d
	e[3] = a.Beta2*e[3] + (1-a.Beta2)*d*d
	c1, c2 := 1-math.Pow(a.Beta1, float64(a.Step)), 1-math.Pow(a.Beta2, float64(a.Step))
	e[0] -= a.LR / c1 * e[2] / (math.Sqrt(e[3])/math.Sqrt(c2) + a.Eps)
}

func elementwiseCases() []elementwiseCase {
	const alpha = float32(-1.75)
	cases := []elementwiseCase{
		{"AddTo", 2, func(s [][]float32) { AddTo(s[0], s[1]) }, func(e []float64) { e[0] += e[1] }, 1e-7, 0},
		{"Add", 3, func(s [][]float32) { Add(s[0], s[1], s[2]) }, func(e []float64) { e[0] = e[1] + e[2] }, 1e-7, 0},
		{"MulTo", 2, func(s [][]float32) { MulTo(s[0], s[1]) }, func(e []float64) { e[0] *= e[1] }, 1e-7, 0},
		{"Mul", 3, func(s [][]float32) { Mul(s[0], s[1], s[2]) }, func(e []float64) { e[0] = e[1] * e[2] }, 1e-7, 0},
		{"MinTo", 2, func(s [][]float32) { MinTo(s[0], s[1]) }, func(e []float64) { e[0] = math.Min(e[0], e[1]) }, 0, 0},
		{"MaxTo", 2, func(s [][]float32) { MaxTo(s[0], s[1]) }, func(e []float64) { e[0] = math.Max(e[0], e[1]) }, 0, 0},
		{"Axpy", 2, func(s [][]float32) { Axpy(s[0], alpha, s[1]) }, func(e []float64) { e[0] += float64(alpha) * e[1] }, 1e-7, 1e-6},
		{"Scale", 1, func(s [][]float32) { Scale(s[0], alpha) }, func(e []float64) { e[0] *= float64(alpha) }, 1e-7, 0},
		{"ScaleTo", 2, func(s [][]float32) { ScaleTo(s[0], s[1], alpha) }, func(e []float64) { e[0] = float64(alpha) * e[1] }, 1e-7, 0},
		{"Fill", 1, func(s [][]float32) { Fill(s[0], alpha) }, func(e []float64) { e[0] = float64(alpha) }, 0, 0},
		{"ReLU", 2, func(s [][]float32) { ReLU(s[0], s[1]) }, func(e []float64) { e[0] = relu64(e[1]) }, 0, 0},
		{"ReLUBackward", 3, func(s [][]float32) { ReLUBackward(s[0], s[1], s[2]) }, func(e []float64) {
			e[0] = 0
			if e[2] > 0 {
				e[0] = e[1]
			}
		}, 0, 0},
		{"AddBias one row", 2, func(s [][]float32) { AddBias(s[0], s[1]) }, func(e []float64) { e[0] += e[1] }, 1e-7, 0},
		{"AddBiasReLU one row", 2, func(s [][]float32) { AddBiasReLU(s[0], s[1]) }, func(e []float64) { e[0] = relu64(e[0] + e[1]) }, 1e-7, 0},
		{"Exp", 2, func(s [][]float32) { Exp(s[0], s[1]) }, func(e []float64) { e[0] = math.Exp(e[1]) }, 2.4e-7, 0},
		{"GELU", 2, func(s [][]float32) { GELU(s[0], s[1]) }, func(e []float64) { e[0] = geluTanh64(e[1]) }, 1e-6, 1e-7},
		{"GELUBackward", 3, func(s [][]float32) { GELUBackward(s[0], s[1], s[2]) }, func(e []float64) { e[0] = e[1] * slope(geluTanh64, e[2]) }, 1e-6, 1e-6},
		{"GELUErf", 2, func(s [][]float32) { GELUErf(s[0], s[1]) }, func(e []float64) { e[0] = geluErf64(e[1]) }, 1e-6, 0},
		{"GELUErfBackward", 3, func(s [][]float32) { GELUErfBackward(s[0], s[1], s[2]) }, func(e []float64) { e[0] = e[1] * slope(geluErf64, e[2]) }, 1e-6, 1e-6},
		{"AddBiasGELU one row", 3, func(s [][]float32) { AddBiasGELU(s[0], s[1], s[2]) }, func(e []float64) {
			e[0] = float64(float32(e[0]) + float32(e[2]))
			e[1] = geluTanh64(e[0])
		}, 1e-6, 1e-7},
		{"AddBiasGELUErf one row", 3, func(s [][]float32) { AddBiasGELUErf(s[0], s[1], s[2]) }, func(e []float64) {
			e[0] = float64(float32(e[0]) + float32(e[2]))
			e[1] = geluErf64(e[0])
		}, 1e-6, 0},
		{"Normalize", 4, func(s [][]float32) { Normalize(s[0], s[1], 0.5, 2, s[2], s[3]) }, func(e []float64) {
			e[0] = (e[1]-0.5)*2*e[2] + e[3]
		}, 1e-6, 1e-6},
		{"SGDPlain", 2, func(s [][]float32) { SGDPlain(s[0], s[1], 0.5, 0.1, 0.01) }, func(e []float64) {
			e[0] -= 0.1 * (0.5*e[1] + 0.01*e[0])
		}, 1e-6, 1e-7},
	}
	for _, a := range []SGDArgs{
		{LR: 0.1, Momentum: 0.9},
		{LR: 0.1, Momentum: 0.9, Dampening: 0.3, WeightDecay: 0.01},
		{LR: 0.1, Momentum: 0.9, WeightDecay: 0.01, Nesterov: true},
		{LR: 0.1, Momentum: 0.9, Dampening: 0.3, WeightDecay: 0.01, First: true},
		{LR: 0.1, Momentum: 0.9, Nesterov: true, First: true},
	} {
		cases = append(cases, elementwiseCase{
			fmt.Sprintf("SGD %+v", a), 3,
			func(s [][]float32) { SGD(s[0], s[1], s[2], 0.25, a) },
			func(e []float64) { sgd64(e, a, 0.25) }, 1e-6, 1e-6,
		})
	}
	for _, step := range []int{1, 2, 1000} {
		a := AdamArgs{LR: 1e-2, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Step: step}
		cases = append(cases, elementwiseCase{fmt.Sprintf("AdamW step %d", step), 4, func(s [][]float32) {
			square(s[3])
			AdamW(s[0], s[1], s[2], s[3], 0.5, a)
		}, func(e []float64) {
			e[3] = float64(float32(sq(e[3])))
			adam64(e, a, 0.5, true)
		}, 3e-6, 3e-6}, elementwiseCase{fmt.Sprintf("Adam step %d", step), 4, func(s [][]float32) {
			square(s[3])
			Adam(s[0], s[1], s[2], s[3], 0.5, a)
		}, func(e []float64) {
			e[3] = float64(float32(sq(e[3])))
			adam64(e, a, 0.5, false)
		}, 3e-6, 3e-6})
	}
	return cases
}

// square makes a second moment of random numbers, well away from zero so that
// the division does not magnify rounding.
func square(x []float32) {
	for i := range x {
		x[i] = float32(sq(float64(x[i])))
	}
}

func TestElementwise(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, c := range elementwiseCases() {
			t.Run(c.name, func(t *testing.T) {
				for _, n := range lengths() {
					runElementwise(t, c, n)
				}
			})
		}
	})
}

func runElementwise(t *testing.T, c elementwiseCase, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	g := make([]guarded, c.slices)
	s := make([][]float32, c.slices)
	want := make([][]float64, n)
	for i := range g {
		g[i] = newGuarded(n, i, normal(r))
		s[i] = g[i].s
	}
	for i := range want {
		want[i] = make([]float64, c.slices)
		for j := range s {
			want[i][j] = float64(s[j][i])
		}
		c.want(want[i])
	}
	c.run(s)
	for j := range g {
		g[j].check(t, fmt.Sprintf("length %d, slice %d", n, j))
		for i, v := range s[j] {
			if !near(v, want[i][j], c.rel, c.abs) {
				t.Fatalf("length %d: slice %d[%d] = %v, want %v", n, j, i, v, want[i][j])
			}
		}
	}
}

// The shortest slice sets the length of the work.
func TestUnequalLengths(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, c := range elementwiseCases() {
			if c.slices < 2 || strings.HasPrefix(c.name, "AddBias") { // a short bias means more rows
				continue
			}
			for short := range c.slices {
				r := rand.New(rand.NewPCG(3, 3))
				s := make([][]float32, c.slices)
				for i := range s {
					n := 40
					if i == short {
						n = 13
					}
					s[i] = newGuarded(n, i, normal(r)).s
				}
				before := append([]float32(nil), s[0]...)
				c.run(s)
				for i := 13; i < len(s[0]); i++ {
					if s[0][i] != before[i] {
						t.Fatalf("%s with slice %d short: wrote at %d", c.name, short, i)
					}
				}
			}
		}
	})
}

func TestInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		for name, f := range map[string]func(dst, x []float32){
			"Exp": Exp, "ReLU": ReLU, "GELU": GELU, "GELUErf": GELUErf,
			"SoftmaxRow": func(d, x []float32) { SoftmaxRow(d, x) },
			"Add":        func(d, x []float32) { Add(d, x, x) },
		} {
			x := newGuarded(77, 1, normal(r)).s
			y := append([]float32(nil), x...)
			out := make([]float32, 77)
			f(out, x)
			f(y, y)
			for i := range out {
				if out[i] != y[i] {
					t.Fatalf("%s in place differs at %d: %v, %v", name, i, y[i], out[i])
				}
			}
		}
	})
}

func TestSpecialValues(t *testing.T) {
	type row struct {
		name string
		f    func(dst, x []float32)
		in   float32
		want float32
	}
	two := func(f func(a, b []float32), with float32) func(dst, x []float32) {
		return func(dst, x []float32) {
			copy(dst, x)
			o := make([]float32, len(x))
			for i := range o {
				o[i] = with
			}
			f(dst, o)
		}
	}
	rows := []row{
		{"Exp", Exp, inf32, inf32},
		{"Exp", Exp, -inf32, 0},
		{"Exp", Exp, nan32, nan32},
		{"Exp", Exp, 0, 1},
		{"Exp", Exp, 89, inf32},
		{"Exp", Exp, 1e30, inf32},
		{"Exp", Exp, -104, 0},
		{"Exp", Exp, -1e30, 0},
		{"ReLU", ReLU, nan32, nan32},
		{"ReLU", ReLU, inf32, inf32},
		{"ReLU", ReLU, -inf32, 0},
		{"GELU", GELU, nan32, nan32},
		{"GELU", GELU, inf32, inf32},
		{"GELU", GELU, -30, 0},
		{"GELU", GELU, 30, 30},
		{"GELU", GELU, 0, 0},
		{"GELUErf", GELUErf, nan32, nan32},
		{"GELUErf", GELUErf, inf32, inf32},
		{"GELUErf", GELUErf, -30, 0},
		{"GELUErf", GELUErf, 30, 30},
		{"GELUErf", GELUErf, 0, 0},
		{"MinTo", two(MinTo, 1), nan32, nan32},
		{"MinTo", two(MinTo, nan32), 1, nan32},
		{"MinTo", two(MinTo, inf32), 3, 3},
		{"MaxTo", two(MaxTo, 1), nan32, nan32},
		{"MaxTo", two(MaxTo, nan32), 1, nan32},
		{"MaxTo", two(MaxTo, -inf32), 3, 3},
		{"GELUBackward", func(d, x []float32) { ones := make([]float32, len(x)); Fill(ones, 1); GELUBackward(d, ones, x) }, 30, 1},
		{"GELUErfBackward", func(d, x []float32) { ones := make([]float32, len(x)); Fill(ones, 1); GELUErfBackward(d, ones, x) }, 1e20, 1},
		{"GELUErfBackward", func(d, x []float32) { ones := make([]float32, len(x)); Fill(ones, 1); GELUErfBackward(d, ones, x) }, -1e20, 0},
	}
	bothWays(t, func(t *testing.T) {
		for _, r := range rows {
			for _, n := range []int{1, 8, 11, 35} {
				for at := range n {
					x := make([]float32, n)
					x[at] = r.in
					dst := make([]float32, n)
					r.f(dst, x)
					got := dst[at]
					if got != r.want && !(got != got && r.want != r.want) {
						t.Fatalf("%s(%v) = %v, want %v (place %d of %d)", r.name, r.in, got, r.want, at, n)
					}
					for i, v := range dst {
						if i != at && v != v && r.name[0] != 'M' {
							t.Fatalf("%s(%v): NaN reached another lane", r.name, r.in)
						}
					}
				}
			}
		}
	})
}

// One number in 1021 of all float32.
func TestExpAccuracy(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		const stride = 1021
		x := make([]float32, 0, 1<<12)
		y := make([]float32, 1<<12)
		worst, where := 0.0, float32(0)
		for b := uint64(0); b < 1<<32; b += stride {
			x = append(x, math.Float32frombits(uint32(b)))
			if len(x) < cap(x) {
				continue
			}
			Exp(y, x)
			for i, v := range x {
				if e := ulps(y[i], math.Exp(float64(v))); e > worst {
					worst, where = e, v
				}
			}
			x = x[:0]
		}
		t.Logf("worst error %.3f ulp at %v", worst, where)
		if worst > 2 {
			t.Errorf("exp(%v) is %.3f ulp off", where, worst)
		}
	})
}

// ulps is the distance of got from want in units of got's last place.
func ulps(got float32, want float64) float64 {
	if math.IsNaN(want) {
		if got != got {
			return 0
		}
		return math.Inf(1)
	}
	w := float32(want)
	if got == w {
		return 0
	}
	if math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) || got != got {
		return math.Inf(1)
	}
	unit := math.Max(float64(math.Nextafter32(w, inf32))-float64(w), math.SmallestNonzeroFloat32)
	return math.Abs(float64(got)-want) / unit
}

func TestGELUAccuracy(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		var x []float32
		for v := -12.9; v < 13; v += 1.0 / 4096 {
			x = append(x, float32(v))
		}
		y, dy, ones := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
		Fill(ones, 1)
		GELUErf(y, x)
		GELUErfBackward(dy, ones, x)
		for i, v := range x {
			if w := geluErf64(float64(v)); !near(y[i], w, 1e-6, 1e-44) {
				t.Fatalf("GELUErf(%v) = %v, want %v", v, y[i], w)
			}
			if w := slope(geluErf64, float64(v)); !near(dy[i], w, 3e-7, 1e-7) {
				t.Fatalf("GELUErfBackward(%v) = %v, want %v", v, dy[i], w)
			}
		}
		GELU(y, x)
		GELUBackward(dy, ones, x)
		for i, v := range x {
			if w := geluTanh64(float64(v)); !near(y[i], w, 1e-6, 1e-7) {
				t.Fatalf("GELU(%v) = %v, want %v", v, y[i], w)
			}
			if w := slope(geluTanh64, float64(v)); !near(dy[i], w, 3e-7, 3e-7) {
				t.Fatalf("GELUBackward(%v) = %v, want %v", v, dy[i], w)
			}
		}
	})
}
