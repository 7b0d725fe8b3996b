package sampler

import (
	"fmt"
	"math"
	"slices"
)

// maxLength is where PyTorch's own arithmetic (float64) stops being exact.
const maxLength = 1 << 53

// Config says what is sharded among whom.
type Config struct {
	Length    int   // samples in the training set
	WorldSize int   // ranks
	Rank      int   // 0..WorldSize-1
	Shuffle   bool  // a new order each epoch, from Seed + epoch
	Seed      int64 // must be the same on all ranks
	DropLast  bool  // drop the tail that does not fill all ranks, instead of repeating samples
}

// Sampler yields the samples of one rank. It never changes after New, so
// goroutines may share it.
type Sampler struct {
	cfg Config
	per int // samples a rank has in a whole epoch
}

// New checks cfg. An empty training set is not an error here, as it is none in
// PyTorch; Check refuses it.
func New(cfg Config) (*Sampler, error) {
	switch {
	case cfg.Length < 0 || cfg.Length > maxLength:
		return nil, fmt.Errorf("sampler: length %d is outside 0..%d", cfg.Length, maxLength)
	case cfg.WorldSize < 1 || cfg.WorldSize > math.MaxInt32:
		return nil, fmt.Errorf("sampler: world size %d is outside 1..%d", cfg.WorldSize, math.MaxInt32)
	case cfg.Rank < 0 || cfg.Rank >= cfg.WorldSize:
		return nil, fmt.Errorf("sampler: rank %d is outside 0..%d (world size %d)", cfg.Rank, cfg.WorldSize-1, cfg.WorldSize)
	}
	return &Sampler{cfg: cfg, per: cfg.share(cfg.Length)}, nil
}

// share is how many of n samples each rank gets.
func (c Config) share(n int) int {
	if c.DropLast {
		return n / c.WorldSize
	}
	return (n + c.WorldSize - 1) / c.WorldSize
}

// NumSamples is the number of samples of each rank in an epoch.
func (s *Sampler) NumSamples() int { return s.per }

// TotalSize is the number of samples of all ranks in an epoch, repeated ones
// included.
func (s *Sampler) TotalSize() int { return s.per * s.cfg.WorldSize }

// Indices is this rank's list for an epoch, in order. A position in it is the
// cursor a checkpoint needs.
func (s *Sampler) Indices(epoch int) []int { return s.Remaining(epoch, 0) }

// Remaining is this rank's list for what is left of an epoch of which all
// ranks together have consumed that many samples. Steps consume the global
// order from its front, so the rest can be shared among any number of ranks:
//
//   - with the world size of the run that stopped, the result equals
//     Indices(epoch)[consumed/WorldSize:];
//   - with another one, no sample of the epoch is missed, and none comes twice
//     but for the padding.
//
// Less than nothing consumed counts as nothing.
func (s *Sampler) Remaining(epoch, consumed int) []int {
	o := s.Order(epoch, consumed)
	return slices.AppendSeq(make([]int, 0, o.Len()), o.Rank(s.cfg.Rank))
}

// EvalIndices is the share of one rank in an evaluation: rank, rank+world, ...
// below length. Nothing is repeated, so shares differ in size by up to one and
// may be empty. Values that name no rank give an empty list.
func EvalIndices(length, world, rank int) []int {
	if world < 1 || rank < 0 || rank >= world || rank >= length {
		return []int{}
	}
	own := make([]int, 0, (length-rank-1)/world+1)
	for i := range cap(own) {
		own = append(own, rank+i*world)
	}
	return own
}
