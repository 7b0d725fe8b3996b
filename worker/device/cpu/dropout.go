package cpu

import "github.com/ddprun/ddprun/worker/device"

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
	drop(out, x, a)
	return nil
}

func drop(out, x []float32, a device.DropoutArgs) {
	limit := uint32(float64(a.P) * (1 << 32))
	keep := 1 / (1 - a.P)
	for i := 0; i < len(x); i += 8 {
		words := philox(a.Seed, uint64(i/4), a.Offset)
		n := min(8, len(x)-i)
		from, to := x[i:i+n], out[i:i+n]
		for j, v := range from {
			if words[j] < limit {
				v = 0
			} else {
				v *= keep
			}
			to[j] = v
		}
	}
}

// philox is two blocks of Philox4x32-10, for the counters lo and lo+1 (lo is
// even). Their multiplications overlap in the processor, which halves the time.
func philox(key, lo, hi uint64) [8]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	a0, a1, a2, a3 := uint32(lo), uint32(lo>>32), uint32(hi), uint32(hi>>32)
	b0, b1, b2, b3 := a0+1, a1, a2, a3
	for range 10 {
		p, q := uint64(a0)*0xD2511F53, uint64(a2)*0xCD9E8D57
		r, s := uint64(b0)*0xD2511F53, uint64(b2)*0xCD9E8D57
		a0, a1, a2, a3 = uint32(q>>32)^a1^k0, uint32(q), uint32(p>>32)^a3^k1, uint32(p)
		b0, b1, b2, b3 = uint32(s>>32)^b1^k0, uint32(s), uint32(r>>32)^b3^k1, uint32(r)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [8]uint32{a0, a1, a2, a3, b0, b1, b2, b3}
}
