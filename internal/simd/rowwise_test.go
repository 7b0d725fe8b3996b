package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSoftmaxRow(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, n := range append(lengths(), 50257) {
			r := rand.New(rand.NewPCG(4, uint64(n)))
			x := newGuarded(n, 1, func() float32 { return float32(10*r.NormFloat64() - 200) })
			if n > 3 {
				x.s[n/2] = -inf32
			}
			dst, dx, dy := clone(x), clone(x), newGuarded(n, 3, normal(r))
			largest, lse := SoftmaxRow(dst.s, x.s)
			top, total := math.Inf(-1), 0.0
			for _, v := range x.s {
				top = math.Max(top, float64(v))
			}
			for _, v := range x.s {
				total += math.Exp(float64(v) - top)
			}
			if float64(largest) != top || (n > 0 && !near(lse, top+math.Log(total), 1e-7, 1e-6)) {
				t.Fatalf("length %d: max %v lse %v, want %v %v", n, largest, lse, top, top+math.Log(total))
			}
			for i, v := range dst.s {
				if w := math.Exp(float64(x.s[i])-top) / total; !near(v, w, 1e-6, 1e-44) {
					t.Fatalf("length %d: y[%d] = %v, want %v", n, i, v, w)
				}
			}
			SoftmaxBackwardRow(dx.s, dy.s, dst.s, 0.125)
			dot := 0.0
			for i, v := range dst.s {
				dot += float64(v) * float64(dy.s[i])
			}
			for i, v := range dx.s {
				if w := 0.125 * float64(dst.s[i]) * (float64(dy.s[i]) - dot); !near(v, w, 1e-6, 1e-7) {
					t.Fatalf("length %d: dx[%d] = %v, want %v", n, i, v, w)
				}
			}
			dst.check(t, "SoftmaxRow")
			dx.check(t, "SoftmaxBackwardRow")
		}
	})
}

func TestSoftmaxSpecial(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, bad := range []float32{nan32, inf32} {
			for at := range 21 {
				x := make([]float32, 21)
				x[at] = bad
				_, lse := SoftmaxRow(x, x)
				if lse == lse {
					t.Fatalf("%v at %d: log-sum-exp %v", bad, at, lse)
				}
			}
		}
		x := []float32{-inf32, -inf32, 5}
		largest, lse := SoftmaxRow(x, x)
		if largest != 5 || lse != 5 || x[0] != 0 || x[2] != 1 {
			t.Fatalf("masked row: %v %v %v", largest, lse, x)
		}
		y := []float32{1000, 1000}
		if _, lse := SoftmaxRow(y, y); y[0] != 0.5 || math.Abs(float64(lse)-1000.6931) > 1e-3 {
			t.Fatalf("large logits: %v %v", y, lse)
		}
	})
}

func TestLayerNorm(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, n := range lengths() {
			if n < 2 {
				continue
			}
			for _, accumulate := range []bool{false, true} {
				layerNormCase(t, n, accumulate)
			}
		}
		LayerNormBackwardRow(nil, nil, nil, 0, 1, nil, nil, nil, true)
	})
}

func layerNormCase(t *testing.T, n int, accumulate bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, uint64(n)))
	slice := func(o int) guarded { return newGuarded(n, o, normal(r)) }
	x, gamma, beta, dy, y := slice(0), slice(1), slice(2), slice(3), slice(4)
	dx, dgamma, dbeta := slice(5), slice(6), slice(7)
	before := [3]guarded{clone(dx), clone(dgamma), clone(dbeta)}
	if !accumulate {
		Fill(dx.s, nan32) // overwritten whatever it held
	}
	const eps = 1e-5
	mean, rstd := LayerNormRow(y.s, x.s, gamma.s, beta.s, eps)
	LayerNormBackwardRow(dx.s, dy.s, x.s, mean, rstd, gamma.s, dgamma.s, dbeta.s, accumulate)

	var mu, variance, s1, s2 float64
	for _, v := range x.s {
		mu += float64(v) / float64(n)
	}
	for _, v := range x.s {
		variance += sq(float64(v)-mu) / float64(n)
	}
	rs := 1 / math.Sqrt(variance+eps)
	hat := func(i int) float64 { return (float64(x.s[i]) - mu) * rs }
	for i := range n {
		g := float64(dy.s[i]) * float64(gamma.s[i])
		s1 += g / float64(n)
		s2 += g * hat(i) / float64(n)
	}
	for i := range n {
		wantDX := rs * (float64(dy.s[i])*float64(gamma.s[i]) - s1 - hat(i)*s2)
		if accumulate {
			wantDX += float64(before[0].s[i])
		}
		for _, c := range []struct {
			name string
			got  float32
			want float64
		}{
			{"y", y.s[i], hat(i)*float64(gamma.s[i]) + float64(beta.s[i])},
			{"dx", dx.s[i], wantDX},
			{"dgamma", dgamma.s[i], float64(before[1].s[i]) + float64(dy.s[i])*hat(i)},
			{"dbeta", dbeta.s[i], float64(before[2].s[i]) + float64(dy.s[i])},
		} {
			// Two or three numbers that lie close together make a large rstd,
			// which magnifies rounding.
			if !near(c.got, c.want, 2e-5, 4e-6*(1+rs*rs)) {
				t.Fatalf("length %d, accumulate %v: %s[%d] = %v, want %v", n, accumulate, c.name, i, c.got, c.want)
			}
		}
	}
	for _, g := range []guarded{x, gamma, beta, dy, y, dx, dgamma, dbeta} {
		g.check(t, "layer norm")
	}
}

// First must ignore what a fresh momentum buffer holds, NaN included.
func TestSGDFirstStep(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		p, g, m := []float32{1, 2}, []float32{3, 4}, []float32{nan32, inf32}
		SGD(p, g, m, 1, SGDArgs{LR: 1, Momentum: 0.9, First: true})
		if p[0] != -2 || p[1] != -2 || m[0] != 3 || m[1] != 4 {
			t.Fatalf("p %v m %v", p, m)
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	x, y := make([]float32, 100), make([]float32, 100)
	if n := testing.AllocsPerRun(10, func() {
		SoftmaxRow(x, y)
		AddBias(x, y[:10])
		LayerNormRow(x, y, x, x, 1e-5)
		AdamW(x, y, x, x, 1, AdamArgs{Beta1: 0.9, Beta2: 0.9, Step: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
