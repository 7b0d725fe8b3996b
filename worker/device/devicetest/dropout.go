package devicetest

import (
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

// kept is the mask that Seed and Offset draw: element i is dropped when word
// i%4 of Philox4x32-10 with key seed and counter (i/4, offset) is below p*2^32.
func kept(n int, p float64, seed, offset uint64) []bool {
	mask := make([]bool, n)
	for i := range mask {
		at := uint64(i / 4)
		words := twinPhilox([4]uint32{uint32(at), uint32(at >> 32), uint32(offset), uint32(offset >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
		mask[i] = float64(words[i%4]) >= math.Floor(f32(p)*(1<<32))
	}
	return mask
}

func testDropout(s *suite) {
	for _, n := range []int{1, 3, 4, 9, 10001} {
		for _, p := range []float64{0, 0.1, 0.5, 0.9, 1} {
			x, v := s.tensor("x", n)
			seed, offset := s.rng.Uint64(), s.rng.Uint64()
			want := make([]float64, n)
			for i, k := range kept(n, p, seed, offset) {
				if k && p < 1 {
					want[i] = v[i] / (1 - f32(p))
				}
			}
			a := device.DropoutArgs{Out: s.alloc("out", n), X: x, P: float32(p), Seed: seed, Offset: offset}
			s.ok(s.dev.Dropout(a))
			s.near("dropped", a.Out, want)
			a.Out = x
			s.ok(s.dev.Dropout(a))
			s.near("in place", x, want)
		}
	}
	s.dropRate()
}

// dropRate counts: 4 standard deviations of 100,000 draws at 0.3 are 0.006.
func (s *suite) dropRate() {
	const n, p = 100_000, 0.3
	x := s.upload("x", constant(n, 1), n)
	s.ok(s.dev.Dropout(device.DropoutArgs{Out: x, X: x, P: p, Seed: 7}))
	var dropped float64
	for _, v := range s.floats(x) {
		if v == 0 {
			dropped++
		}
	}
	if math.Abs(dropped/n-p) > 0.006 {
		s.Errorf("%g of the elements were dropped, want %g", dropped/n, p)
	}
}

func testDropoutErrors(s *suite) {
	x := s.alloc("x", 4)
	for _, p := range []float32{-0.1, 1.5, float32(math.NaN())} {
		s.refuses(s.dev.Dropout(device.DropoutArgs{Out: x, X: x, P: p}), "dropout", "P")
	}
	s.refuses(s.dev.Dropout(device.DropoutArgs{Out: s.alloc("odd", 5), X: x}), "odd", "[5]", "4")
	s.refuses(s.dev.Dropout(device.DropoutArgs{Out: x, X: s.foreign(4)}), "alien", "cuda:63")
	s.refuses(s.dev.Dropout(device.DropoutArgs{Out: x}), "X")
}
