package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lengths covers every rest of every unrolling, and long slices.
func lengths() []int {
	var out []int
	for n := range 71 {
		out = append(out, n)
	}
	return append(out, 127, 1001, 4097, 8200, 10007)
}

const canary = float32(-7777.25)

// guarded is a slice between canaries that starts at an odd address.
type guarded struct {
	whole, s []float32
}

func newGuarded(n, offset int, value func() float32) guarded {
	pad := 19 + offset
	w := make([]float32, pad+n+19)
	for i := range w {
		w[i] = canary
	}
	g := guarded{w, w[pad : pad+n]}
	for i := range g.s {
		g.s[i] = value()
	}
	return g
}

func (g guarded) check(t *testing.T, what string) {
	t.Helper()
	pad := len(g.whole) - len(g.s) - 19
	for i, v := range g.whole {
		if (i < pad || i >= pad+len(g.s)) && v != canary {
			t.Fatalf("%s: wrote outside the slice, at %d of [0,%d)", what, i-pad, len(g.s))
		}
	}
}

func normal(r *rand.Rand) func() float32 {
	return func() float32 { return float32(r.NormFloat64()) }
}

// near tells whether got is want within rel of want's size, or abs.
func near(got float32, want, rel, abs float64) bool {
	g := float64(got)
	if math.IsNaN(want) || math.IsNaN(g) {
		return math.IsNaN(want) && math.IsNaN(g)
	}
	if math.IsInf(want, 0) || math.Abs(want) > math.MaxFloat32*(1+1e-8) {
		return math.IsInf(g, 0) && math.Signbit(g) == math.Signbit(want)
	}
	return math.Abs(g-want) <= rel*math.Abs(want)+abs
}

var inf32, nan32 = float32(math.Inf(1)), float32(math.NaN())
