package cpu

import (
	"math/bits"

	"github.com/ddprun/ddprun/worker/device"
)

// Dropout drops elements and scales the rest. Element i is decided by word
// i%4 of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC11) with key Seed and counter (i/4, Offset), low words first: it is
// dropped when the word is below P*2^32. Every device draws the same mask.
func (d *Device) Dropout(a device.DropoutArgs) error {
	c := d.check("dropout")
	c.float("X", a.X)
	c.like("Out", a.Out, a.X)
	if !(a.P >= 0 && a.P <= 1) {
		c.fail("P is %g, want 0 to 1", a.P)
	}
	if c.err != nil {
		return c.err
	}
	out, x := floats(a.Out), floats(a.X)
	if a.P == 1 {
		clear(out)
		return nil
	}
	limit := uint32(float64(a.P) * (1 << 32))
	keep := 1 / (1 - a.P)
	for i := 0; i < len(x); i += 4 {
		words := philox(a.Seed, uint64(i/4), a.Offset)
		for j := i; j < min(i+4, len(x)); j++ {
			if words[j-i] < limit {
				out[j] = 0
			} else {
				out[j] = x[j] * keep
			}
		}
	}
	return nil
}

// philox is one block of Philox4x32-10.
func philox(key, lo, hi uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	c0, c1, c2, c3 := uint32(lo), uint32(lo>>32), uint32(hi), uint32(hi>>32)
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c0)
		h1, l1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}
