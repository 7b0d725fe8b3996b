package sampler

import "math"

// largeN is the length from which PyTorch (2.6 on) draws 64-bit numbers for a
// permutation: from here on a 32-bit number modulo n would be visibly biased.
// Older releases used the 32-bit draw at every length.
const largeN = math.MaxUint32 / 20 // 214748364

// RandPerm returns a permutation of 0..n-1: what torch.randperm(n) gives on a
// CPU with a generator freshly seeded with seed, also for n >= 214748364, where
// the algorithm of PyTorch 2.6 and later is used. n <= 0 gives an empty list.
func RandPerm(n int, seed int64) []int {
	if n <= 0 {
		return []int{}
	}
	return permute[int](n, seed)
}

// word is the element of a permutation; uint32 halves the memory of a rank
// where it suffices.
type word interface{ uint32 | int }

func permute[W word](n int, seed int64) []W {
	a := make([]W, n)
	g := NewGenerator(seed)
	if n < largeN {
		shuffle32(a, g)
	} else {
		shuffle64(a, g)
	}
	return a
}

// shuffle32 is Fisher-Yates from the front with a plain modulo: n-1 draws.
func shuffle32[W word](a []W, g *Generator) {
	for i := range a {
		a[i] = W(i)
	}
	n := uint32(len(a))
	for i := uint32(0); i+1 < n; i++ {
		j := i + g.Uint32()%(n-i)
		a[i], a[j] = a[j], a[i]
	}
}

// shuffle64 builds the permutation inside out: n draws of 64 bits.
func shuffle64[W word](a []W, g *Generator) {
	for i := range a {
		j := g.Uint64() % uint64(i+1)
		a[i] = a[j]
		a[j] = W(i)
	}
}
