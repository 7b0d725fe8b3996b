package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/sampler"
)

// newShardCommand prints the samples each rank draws: the sampler made visible,
// to compare with PyTorch or to replay a run. It is left without a parent; the
// root command sets the flag-name normalisation.
func newShardCommand() *cobra.Command {
	var f shardFlags
	cmd := &cobra.Command{
		Use:   "shard --n N --world-size W",
		Short: "print the sample indices of each rank, as PyTorch's DistributedSampler has them",
		Long: `Print which samples each rank trains on in an epoch, in order: index for index
what PyTorch's DistributedSampler yields.

One line of numbers for each rank, or for the rank of --rank alone; with --json
each line is a JSON array.`,
		Example: `  ddprun shard --n 10 --world-size 4
  ddprun shard --n 60000 --world-size 8 --rank 3 --epoch 2 --json`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exitcode.With(fmt.Errorf("ddprun shard: unexpected argument %q (it takes flags only)", args[0]), exitcode.Usage)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runShard(cmd, f) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return exitcode.With(fmt.Errorf("ddprun shard: %w", err), exitcode.Usage)
	})
	fl := cmd.Flags()
	fl.SortFlags = false
	// Numbers are taken as text and read together, so that one report names
	// every bad one.
	fl.StringVar(&f.n, "n", "", "samples in the data set (required)")
	fl.StringVar(&f.world, "world-size", "", "number of ranks (required)")
	fl.StringVar(&f.rank, "rank", "", "print this rank only (default all)")
	fl.StringVar(&f.epoch, "epoch", "0", "epoch, from 0")
	fl.StringVar(&f.seed, "seed", "0", "seed of the sampler; an epoch shuffles with seed + epoch")
	fl.BoolVar(&f.noShuffle, "no-shuffle", false, "keep the samples in order")
	fl.BoolVar(&f.dropLast, "drop-last", false, "drop the tail that does not fill all ranks, instead of repeating samples")
	fl.BoolVar(&f.json, "json", false, "print JSON arrays")
	return cmd
}

// shardFlags are the flags of the shard command as given.
type shardFlags struct {
	n, world, rank, epoch, seed string
	noShuffle, dropLast, json   bool
}

// shardRequest is what they ask for.
type shardRequest struct {
	config      sampler.Config
	epoch       int
	first, last int // ranks to print, last excluded
}

// request reads the flags; its error names every bad one, a line each.
func (f shardFlags) request() (shardRequest, error) {
	var p numberParser
	r := shardRequest{config: sampler.Config{
		Length:    int(p.number("--n", f.n, 0, 1<<53)),
		WorldSize: int(p.number("--world-size", f.world, 1, math.MaxInt32)),
		Shuffle:   !f.noShuffle,
		Seed:      p.number("--seed", f.seed, math.MinInt64, math.MaxInt64),
		DropLast:  f.dropLast,
	}}
	r.epoch = int(p.number("--epoch", f.epoch, 0, math.MaxInt64))
	r.last = r.config.WorldSize
	if f.rank != "" {
		r.first = int(p.number("--rank", f.rank, 0, math.MaxInt32))
		r.last = r.first + 1
		if world := r.config.WorldSize; world > 0 && r.first >= world {
			p.complain("--rank %d is outside 0..%d (--world-size %d)", r.first, world-1, world)
		}
	}
	return r, p.err()
}

// numberParser collects what is wrong with numbers.
type numberParser struct{ problems []error }

func (p *numberParser) complain(format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("ddprun shard: "+format, args...))
}

// number is text as a whole decimal number within lowest..highest; 0 and a
// complaint when it is none.
func (p *numberParser) number(flag, text string, lowest, highest int64) int64 {
	if text == "" {
		p.complain("%s is missing: give a whole number", flag)
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (v < lowest || v > highest):
		p.complain("%s %s is outside %d..%d", flag, text, lowest, highest)
	case err != nil:
		p.complain("%s %q is not a whole decimal number", flag, text)
	default:
		return v
	}
	return 0
}

func (p *numberParser) err() error {
	return exitcode.With(errors.Join(p.problems...), exitcode.Usage)
}

func runShard(cmd *cobra.Command, f shardFlags) error {
	r, err := f.request()
	if err != nil {
		return err
	}
	s, err := sampler.New(r.config)
	if err != nil {
		return exitcode.With(err, exitcode.Usage)
	}
	if err := checkMemory(r.config); err != nil {
		return err
	}
	// An empty list is PyTorch's answer too; a trainer would refuse it.
	if err := s.Check(1, false); err != nil {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "ddprun shard: note: %v\n", err)
	}
	order := s.Order(r.epoch, 0)
	w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	for rank := r.first; rank < r.last; rank++ {
		if err := writeShard(w, order.Rank(rank), f.json); err != nil {
			return fmt.Errorf("ddprun shard: write rank %d: %w", rank, err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("ddprun shard: write: %w", err)
	}
	return nil
}

// checkMemory refuses a permutation that the machine cannot hold, which would
// end in a stack trace of the Go runtime otherwise.
func checkMemory(c sampler.Config) error {
	if !c.Shuffle {
		return nil
	}
	need, have := sampler.OrderBytes(c.Length), availableMemory()
	if have == 0 || need <= have {
		return nil
	}
	return exitcode.With(fmt.Errorf("ddprun shard: a shuffled order of %d samples needs %d bytes of memory, %d are available: use --no-shuffle or a machine with more memory", c.Length, need, have), exitcode.Machine)
}

// writeShard writes one line.
func writeShard(w *bufio.Writer, indices iter.Seq[int], asJSON bool) error {
	open, comma, end := "", " ", "\n"
	if asJSON {
		open, comma, end = "[", ",", "]\n"
	}
	if _, err := w.WriteString(open); err != nil {
		return err
	}
	separator := ""
	for i := range indices {
		line := append(w.AvailableBuffer(), separator...)
		if _, err := w.Write(strconv.AppendInt(line, int64(i), 10)); err != nil {
			return err
		}
		separator = comma
	}
	_, err := w.WriteString(end)
	return err
}

// availableMemory is what the kernel says can be allocated without swapping,
// in bytes; 0 when it does not say.
func availableMemory() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
