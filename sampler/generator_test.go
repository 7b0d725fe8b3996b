package sampler

import (
	"math"
	"slices"
	"testing"
)

// slowWords is MT19937 as its authors state it, one index formula, to hold the
// unrolled refill to. Words 624 and on need a second refill.
func slowWords(seed uint32, count int) []uint32 {
	x := make([]uint32, 624+count)
	x[0] = seed
	for j := 1; j < 624; j++ {
		x[j] = 1812433253*(x[j-1]^(x[j-1]>>30)) + uint32(j)
	}
	words := make([]uint32, count)
	for k := range words {
		y := (x[k] & 0x80000000) | (x[k+1] & 0x7fffffff)
		next := x[k+397] ^ (y >> 1)
		if y&1 == 1 {
			next ^= 0x9908b0df
		}
		x[k+624] = next
		next ^= next >> 11
		next ^= (next << 7) & 0x9d2c5680
		next ^= (next << 15) & 0xefc60000
		words[k] = next ^ (next >> 18)
	}
	return words
}

func TestGeneratorMatchesItsTwin(t *testing.T) {
	for _, seed := range []int64{0, 1, 42, 1<<31 + 7, math.MaxInt64, -1} {
		g := NewGenerator(seed)
		for i, want := range slowWords(uint32(seed), 2000) {
			if got := g.Uint32(); got != want {
				t.Fatalf("seed %d word %d: got %d, want %d", seed, i, got, want)
			}
		}
	}
}

// The C++ standard (26.5.5, predefined generators) fixes this word of the
// default-seeded engine.
func TestGeneratorTenThousandthWord(t *testing.T) {
	g := NewGenerator(5489)
	for range 9999 {
		g.Uint32()
	}
	if got := g.Uint32(); got != 4123659995 {
		t.Fatalf("word 10000 of seed 5489 is %d, want 4123659995", got)
	}
}

func TestSeedsCountModulo32Bits(t *testing.T) {
	for _, pair := range [][2]int64{{0, 1 << 32}, {-1, math.MaxUint32}, {7, 7 + 5<<32}, {math.MinInt64, 0}} {
		if a, b := NewGenerator(pair[0]).Uint64(), NewGenerator(pair[1]).Uint64(); a != b {
			t.Errorf("seeds %d and %d differ", pair[0], pair[1])
		}
	}
}

func TestUint64HasTheFirstWordOnTop(t *testing.T) {
	if got, want := NewGenerator(0).Uint64(), uint64(2357136044)<<32|2546248239; got != want {
		t.Fatalf("got %d, want %d", got, want)
	}
}

// torch.manual_seed(0); torch.rand(5) prints these digits.
func TestFloat32MatchesTorchRand(t *testing.T) {
	g := NewGenerator(0)
	for i, want := range []float64{0.4963, 0.7682, 0.0885, 0.1320, 0.3074} {
		if got := float64(g.Float32()); math.Abs(got-want) > 5e-5 {
			t.Errorf("value %d: got %.6f, want %.4f", i, got, want)
		}
	}
}

func TestFloatsStayBelowOne(t *testing.T) {
	g := NewGenerator(9)
	var sum float64
	const draws = 20000
	for range draws {
		a, b := g.Float32(), g.Float64()
		if a < 0 || a >= 1 || b < 0 || b >= 1 {
			t.Fatalf("outside [0, 1): %v %v", a, b)
		}
		sum += float64(a) + b
	}
	if mean := sum / (2 * draws); math.Abs(mean-0.5) > 0.01 {
		t.Errorf("mean %v", mean)
	}
}

// Numbers of an independent port of the large branch at a toy size.
func TestShuffle64AtToySize(t *testing.T) {
	for _, c := range []struct {
		n    int
		seed int64
		want []int
	}{
		{10, 0, []int{8, 2, 6, 3, 5, 1, 0, 9, 7, 4}},
		{5, 42, []int{3, 0, 2, 4, 1}},
		{0, 1, []int{}},
	} {
		got := make([]int, c.n)
		shuffle64(got, NewGenerator(c.seed))
		if !slices.Equal(got, c.want) {
			t.Errorf("n %d seed %d: got %v, want %v", c.n, c.seed, got, c.want)
		}
	}
}

func TestLargeBranchThreshold(t *testing.T) {
	if largeN != 214748364 {
		t.Fatalf("the threshold is %d", largeN)
	}
}

func TestRandPermOfNothing(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		if got := RandPerm(n, 1); got == nil || len(got) != 0 {
			t.Errorf("RandPerm(%d) = %v", n, got)
		}
	}
}

func BenchmarkRandPerm(b *testing.B) {
	for b.Loop() {
		RandPerm(1_000_000, 1)
	}
}
