package sampler

import "iter"

// Order is the sequence in which all ranks together go through an epoch, or
// through what is left of it. It costs 4 bytes a sample when shuffled (8 from
// 2^32 samples on), nothing otherwise.
type Order struct {
	start, per, world, length int
	narrow                    []uint32
	wide                      []int
}

// Order returns the sequence of an epoch of which consumed samples, counted
// over all ranks, are done. It serves all ranks: Sampler.Indices is
// Order(epoch, 0).Rank(rank).
func (s *Sampler) Order(epoch, consumed int) Order {
	n := s.cfg.Length
	consumed = min(max(consumed, 0), n)
	o := Order{start: consumed, per: s.cfg.share(n - consumed), world: s.cfg.WorldSize, length: n}
	if !s.cfg.Shuffle || o.per == 0 {
		return o
	}
	if seed := s.cfg.Seed + int64(epoch); narrowEnough(n) {
		o.narrow = permute[uint32](n, seed)
	} else {
		o.wide = permute[int](n, seed)
	}
	return o
}

// OrderBytes is the memory that a shuffled order of n samples takes while it
// is in use.
func OrderBytes(n int) uint64 {
	if narrowEnough(n) {
		return uint64(n) * 4
	}
	return uint64(n) * 8
}

func narrowEnough(n int) bool { return uint64(n) < 1<<32 }

// Len is the number of samples of each rank.
func (o Order) Len() int { return o.per }

// Rank yields the samples of a rank, in order; ranks outside the world have
// none.
func (o Order) Rank(rank int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if rank < 0 || rank >= o.world {
			return
		}
		for i := range o.per {
			if !yield(o.at(o.start + rank + i*o.world)) {
				return
			}
		}
	}
}

// at is the sample at a place of the global order. Places behind its end are
// padding: the order starts over, as often as needed.
func (o Order) at(place int) int {
	if place >= o.length {
		place %= o.length
	}
	switch {
	case o.narrow != nil:
		return int(o.narrow[place])
	case o.wide != nil:
		return o.wide[place]
	}
	return place
}
