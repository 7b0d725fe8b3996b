package sampler

import "fmt"

// dataRefused is the exit status for refused data; its owner is
// internal/exitcode, which this package, being standard library only, does not
// import. A test holds the two together.
const dataRefused = 65

// refusal is an error of the data class.
type refusal string

func (r refusal) Error() string { return string(r) }

// ExitCode is the exit status of the class.
func (refusal) ExitCode() int { return dataRefused }

// Check refuses a training set that leaves some epoch without a single step,
// which would otherwise train nothing, for ever, in silence. batch is the
// number of samples a rank takes in one step; dropLastBatch is the loader's
// drop_last, which drops a rank's short last batch. The error has the exit
// class of refused data and names the numbers.
func (s *Sampler) Check(batch int, dropLastBatch bool) error {
	n, world := s.cfg.Length, s.cfg.WorldSize
	have := fmt.Sprintf("(samples: %d, world size: %d, batch size per rank: %d)", n, world, batch)
	switch {
	case batch < 1:
		return refusal("no training step is possible: the batch size must be at least 1 " + have)
	case n == 0:
		return refusal("no training step is possible: the training set is empty " + have)
	case s.per == 0:
		return refusal("no training step is possible: sampler.drop_last drops all samples, as there are fewer than ranks; use fewer ranks, more data, or sampler.drop_last: false " + have)
	case dropLastBatch && s.per < batch:
		return refusal(fmt.Sprintf("no training step is possible: each rank has %d samples, which do not fill a batch, and loader.drop_last drops short batches; use a smaller batch, fewer ranks, or loader.drop_last: false %s", s.per, have))
	}
	return nil
}
