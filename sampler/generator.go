package sampler

// Sizes and masks of MT19937 (Matsumoto and Nishimura, 1998).
const (
	mtN         = 624
	mtM         = 397
	mtUpperMask = 0x80000000
	mtLowerMask = 0x7fffffff
	mtMatrix    = 0x9908b0df
)

// Generator is PyTorch's CPU generator: MT19937 with the same words for the
// same seed. It is not safe for use by several goroutines.
type Generator struct {
	state [mtN]uint32
	next  int // word to temper next; mtN: all are used up
}

// NewGenerator returns the generator of torch.Generator().manual_seed(seed).
// Only the low 32 bits of the seed matter, as in PyTorch (ATen's
// mt19937 keeps the seed as uint64 but initialises from its low half): seeds s
// and s + 1<<32 give the same stream, and a negative seed counts modulo 1<<64.
func NewGenerator(seed int64) *Generator {
	g := &Generator{next: mtN}
	g.state[0] = uint32(seed)
	for j := 1; j < mtN; j++ {
		prev := g.state[j-1]
		g.state[j] = 1812433253*(prev^prev>>30) + uint32(j)
	}
	return g
}

// Uint32 returns the next word, uniform over all 32-bit numbers.
func (g *Generator) Uint32() uint32 {
	if g.next == mtN {
		g.refill()
	}
	y := g.state[g.next]
	g.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Uint64 draws two words; the first is the high half, as in PyTorch's random64.
func (g *Generator) Uint64() uint64 {
	high := uint64(g.Uint32())
	return high<<32 | uint64(g.Uint32())
}

// Float32 is uniform in [0, 1): the low 24 bits of one word, in steps of
// 2^-24, as torch.rand draws float32 on a CPU.
func (g *Generator) Float32() float32 {
	return float32(g.Uint32()&(1<<24-1)) * (1.0 / (1 << 24))
}

// Float64 is uniform in [0, 1): the low 53 bits of Uint64, in steps of 2^-53,
// as torch.rand draws float64 on a CPU.
func (g *Generator) Float64() float64 {
	return float64(g.Uint64()&(1<<53-1)) * (1.0 / (1 << 53))
}

// refill makes the next 624 words. Three loops, so that none needs a modulo.
func (g *Generator) refill() {
	s := &g.state
	for j := 0; j < mtN-mtM; j++ {
		s[j] = s[j+mtM] ^ twist(s[j], s[j+1])
	}
	for j := mtN - mtM; j < mtN-1; j++ {
		s[j] = s[j+mtM-mtN] ^ twist(s[j], s[j+1])
	}
	s[mtN-1] = s[mtM-1] ^ twist(s[mtN-1], s[0])
	g.next = 0
}

func twist(u, v uint32) uint32 {
	y := u&mtUpperMask | v&mtLowerMask
	return y>>1 ^ -(v&1)&mtMatrix
}
