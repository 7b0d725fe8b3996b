package allocator

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Sizes of PyTorch's allocator.
const (
	minBlock       = 512      // every block is a multiple of it
	smallSize      = mib      // larger requests come from the large pool
	smallSegment   = 2 * mib  // what the small pool takes from the driver
	largeSegment   = 20 * mib // what the large pool takes for requests below minLargeAlloc
	minLargeAlloc  = 10 * mib // from here on a request gets a segment of its own size
	roundLarge     = 2 * mib  // to a multiple of which that is rounded
	minSplitOption = 20 * mib
)

// Options tune the allocator; the zero value is PyTorch's default.
type Options struct {
	// MaxSplit is the size in bytes from which blocks are never split; 0: none.
	MaxSplit int
	// Limit is the most that may be reserved, in bytes; 0: what the device has.
	Limit int
	// GCThreshold is the part of Limit above which unsplit cached segments
	// are given back before more is taken; 0: never.
	GCThreshold float64
	// RoundDivisions rounds requests up to one of so many steps between two
	// powers of two, in place of the next multiple of 512; 0: off.
	RoundDivisions int
	// Device names the device in messages.
	Device string
}

// Parse reads options in the form of PYTORCH_CUDA_ALLOC_CONF, "key:value,...",
// with the keys max_split_size_mb, garbage_collection_threshold,
// roundup_power2_divisions and memory_limit_mb (ours).
func Parse(text string) (Options, error) {
	var o Options
	if strings.TrimSpace(text) == "" {
		return o, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), ":")
		if !ok {
			return o, fmt.Errorf("allocator option %q is not key:value", item)
		}
		if err := o.set(key, value); err != nil {
			return o, fmt.Errorf("allocator option %s:%s: %w", key, value, err)
		}
	}
	return o, o.check()
}

func (o *Options) set(key, value string) (err error) {
	switch key {
	case "max_split_size_mb":
		o.MaxSplit, err = megabytes(value)
	case "memory_limit_mb":
		o.Limit, err = megabytes(value)
	case "garbage_collection_threshold":
		o.GCThreshold, err = strconv.ParseFloat(value, 64)
	case "roundup_power2_divisions":
		o.RoundDivisions, err = strconv.Atoi(value)
	default:
		err = fmt.Errorf("unknown; there are max_split_size_mb, memory_limit_mb, garbage_collection_threshold, roundup_power2_divisions")
	}
	return err
}

func megabytes(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err == nil && (n < 1 || n > 1<<30) {
		err = fmt.Errorf("%d MiB is out of range", n)
	}
	return n * mib, err
}

func (o Options) check() error {
	switch {
	case o.MaxSplit != 0 && o.MaxSplit <= minSplitOption:
		return fmt.Errorf("allocator: max_split_size_mb must be more than %d", minSplitOption/mib)
	case o.Limit < 0:
		return fmt.Errorf("allocator: a memory limit of %d bytes", o.Limit)
	case !(o.GCThreshold >= 0 && o.GCThreshold < 1):
		return fmt.Errorf("allocator: garbage_collection_threshold %g is not between 0 and 1", o.GCThreshold)
	case o.GCThreshold > 0 && o.Limit == 0:
		return fmt.Errorf("allocator: garbage_collection_threshold needs memory_limit_mb")
	case o.RoundDivisions < 0 || bits.OnesCount(uint(o.RoundDivisions)) > 1 || o.RoundDivisions > 64:
		return fmt.Errorf("allocator: roundup_power2_divisions %d is not a power of two up to 64", o.RoundDivisions)
	}
	return nil
}

// round is the size of the block that serves a request.
func (o Options) round(bytes int) int {
	if bytes <= minBlock {
		return minBlock
	}
	if o.RoundDivisions > 1 && bytes > minBlock*o.RoundDivisions {
		return roundToDivision(bytes, o.RoundDivisions)
	}
	return roundUp(bytes, minBlock)
}

// roundToDivision rounds up to the next of so many equal steps inside the
// power of two that bytes lies above.
func roundToDivision(bytes, divisions int) int {
	if bytes&(bytes-1) == 0 {
		return bytes
	}
	below := 1 << (bits.Len(uint(bytes)) - 1)
	return below + roundUp(bytes-below, below/divisions)
}

// segmentFor is what is taken from the driver for a block.
func segmentFor(size int) int {
	switch {
	case size <= smallSize:
		return smallSegment
	case size < minLargeAlloc:
		return largeSegment
	}
	return roundUp(size, roundLarge)
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }
