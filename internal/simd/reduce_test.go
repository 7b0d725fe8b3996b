package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestReductions(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, n := range lengths() {
			r := rand.New(rand.NewPCG(2, uint64(n)))
			a, b := newGuarded(n, 1, normal(r)), newGuarded(n, 2, normal(r))
			var sum, squares, dot, size float64
			top := math.Inf(-1)
			for i, v := range a.s {
				sum += float64(v)
				squares += sq(float64(v))
				dot += float64(v) * float64(b.s[i])
				size += math.Abs(float64(v) * float64(b.s[i]))
				top = math.Max(top, float64(v))
			}
			var mean, variance float64
			if n > 0 {
				mean = sum / float64(n)
				for _, v := range a.s {
					variance += sq(float64(v)-mean) / float64(n)
				}
			}
			m, va := MeanVar(a.s)
			for _, c := range []struct {
				name      string
				got, want float64
				tol       float64
			}{
				{"Sum", float64(Sum(a.s)), sum, 1e-7 * (1 + math.Abs(sum))},
				{"SumSquares", SumSquares(a.s), squares, 1e-13 * (1 + squares)},
				{"Dot", float64(Dot(a.s, b.s)), dot, 3e-7 * (1 + size)},
				{"Max", float64(Max(a.s)), top, 0},
				{"mean", float64(m), mean, 1e-7 * (1 + math.Abs(mean))},
				{"variance", float64(va), variance, 1e-6 * (1 + variance)},
			} {
				if c.got != c.want && !(math.Abs(c.got-c.want) <= c.tol) {
					t.Fatalf("length %d: %s = %v, want %v", n, c.name, c.got, c.want)
				}
			}
			a.check(t, "reductions")
		}
	})
}

// A sum must not lose small terms beside large ones.
func TestSumIsAccurate(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		x := make([]float32, 1<<20+3)
		for i := range x {
			x[i] = 0.1
		}
		want := float64(len(x)) * float64(float32(0.1))
		if got := float64(Sum(x)); math.Abs(got-want) > 1e-7*want {
			t.Errorf("Sum = %v, want %v", got, want)
		}
		if got := float64(Dot(x, x)); math.Abs(got/(want*float64(float32(0.1)))-1) > 2e-6 {
			t.Errorf("Dot = %v, want %v", got, want*0.1)
		}
		x[0] = math.MaxFloat32
		if got := SumSquares(x[:9]); math.IsInf(got, 0) {
			t.Errorf("SumSquares overflowed")
		}
		mean, variance := MeanVar(x[1:])
		if mean != 0.1 || variance > 1e-14 {
			t.Errorf("MeanVar of a constant = %v, %v", mean, variance)
		}
	})
}

func TestHasNonFinite(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, n := range lengths() {
			if n > 200 {
				continue
			}
			x := newGuarded(n, 1, func() float32 { return -math.MaxFloat32 }).s
			if HasNonFinite(x) {
				t.Fatalf("length %d: finite numbers reported", n)
			}
			for i := range x {
				for _, bad := range []float32{inf32, -inf32, nan32, math.Float32frombits(0xff800001)} {
					x[i] = bad
					if !HasNonFinite(x) {
						t.Fatalf("length %d: %v at %d not seen", n, bad, i)
					}
				}
				x[i] = math.MaxFloat32
			}
		}
		if HasNonFinite([]float32{math.SmallestNonzeroFloat32}) {
			t.Fatal("a subnormal number was reported")
		}
		// What lies around the slice does not count.
		y := []float32{nan32, 1, 2, 3, inf32}
		if HasNonFinite(y[1:4]) {
			t.Fatal("read outside the slice")
		}
		if Max([]float32{inf32, -5, -7, inf32}[1:3]) != -5 {
			t.Fatal("Max read outside the slice, or takes zero for a lane that is not there")
		}
	})
}

func TestRows(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, cols := range []int{1, 2, 7, 8, 9, 10, 31, 32, 33, 47, 64, 100, 131} {
			for _, rows := range []int{0, 1, 2, 5, 127, 128, 129, 300} {
				r := rand.New(rand.NewPCG(uint64(cols), uint64(rows)))
				x := newGuarded(rows*cols, 1, normal(r))
				dst, bias := newGuarded(cols, 2, normal(r)), newGuarded(cols, 0, normal(r))
				want := make([]float64, cols)
				for c := range want {
					want[c] = float64(dst.s[c])
					for i := range rows {
						want[c] += float64(x.s[i*cols+c])
					}
				}
				ColSumTo(dst.s, x.s)
				what := fmt.Sprintf("%dx%d", rows, cols)
				dst.check(t, what)
				for c, v := range dst.s {
					if !near(v, want[c], 1e-6, 3e-6*math.Sqrt(float64(rows+1))) {
						t.Fatalf("ColSumTo %s: column %d = %v, want %v", what, c, v, want[c])
					}
				}
				rowsAddBias(t, what, x, bias)
			}
		}
		ColSumTo(nil, []float32{1})
		AddBias([]float32{1}, nil)
	})
}

func rowsAddBias(t *testing.T, what string, x, bias guarded) {
	t.Helper()
	n := len(bias.s)
	plain, relu, pre := clone(x), clone(x), clone(x)
	out := clone(x)
	AddBias(plain.s, bias.s)
	AddBiasReLU(relu.s, bias.s)
	AddBiasGELU(pre.s, out.s, bias.s)
	erfPre, erfOut := clone(x), clone(x)
	AddBiasGELUErf(erfPre.s, erfOut.s, bias.s)
	for i, v := range x.s {
		w := v + bias.s[i%n]
		if plain.s[i] != w || pre.s[i] != w || erfPre.s[i] != w || relu.s[i] != max(w, 0) ||
			!near(out.s[i], geluTanh64(float64(w)), 1e-6, 1e-7) || !near(erfOut.s[i], geluErf64(float64(w)), 1e-6, 0) {
			t.Fatalf("%s: bias at %d: %v %v %v %v %v for %v", what, i, plain.s[i], relu.s[i], pre.s[i], out.s[i], erfOut.s[i], w)
		}
	}
	for _, g := range []guarded{plain, relu, pre, out, erfPre, erfOut} {
		g.check(t, what)
	}
}

func clone(g guarded) guarded {
	w := append([]float32(nil), g.whole...)
	pad := len(g.whole) - len(g.s) - 19
	return guarded{w, w[pad : pad+len(g.s)]}
}
