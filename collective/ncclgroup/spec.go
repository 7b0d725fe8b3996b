package ncclgroup

import (
	"fmt"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/nccl"
)

type kind uint8

const (
	allReduce kind = iota
	broadcast
	allGather
	reduceScatter
	barrier
)

func (k kind) String() string {
	return [...]string{"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"}[k]
}

// spec is what all ranks must have in common in an operation.
type spec struct {
	seq    uint64
	kind   kind
	dtype  collective.DType
	reduce collective.ReduceOp
	root   int
	count  int // elements of the smaller buffer
}

// String shows all that must be equal: ranks compare their texts.
func (s spec) String() string {
	elements := fmt.Sprintf("%d %v", s.count, s.dtype)
	switch s.kind {
	case allReduce, reduceScatter:
		return fmt.Sprintf("#%d %v(%v, %s)", s.seq, s.kind, s.reduce, elements)
	case broadcast:
		return fmt.Sprintf("#%d %v(%s from rank %d)", s.seq, s.kind, elements, s.root)
	case allGather:
		return fmt.Sprintf("#%d %v(%s of each)", s.seq, s.kind, elements)
	}
	return fmt.Sprintf("#%d %v", s.seq, s.kind)
}

// gathers says whether the end of the operation on one rank proves that every
// rank has issued it. A broadcast's root may be done long before.
func (s spec) gathers() bool { return s.kind != broadcast && s.count > 0 }

var dataTypes = map[collective.DType]nccl.DataType{
	collective.Float32: nccl.Float32, collective.Float64: nccl.Float64,
	collective.Int32: nccl.Int32, collective.Int64: nccl.Int64, collective.Uint8: nccl.Uint8,
}

var reductions = map[collective.ReduceOp]nccl.Op{
	collective.Sum: nccl.Sum, collective.Product: nccl.Prod, collective.Min: nccl.Min, collective.Max: nccl.Max,
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", collective.ErrInvalid, fmt.Sprintf(format, args...))
}

// check says why a call cannot be right on any rank.
func check(s spec, dst, src collective.Buffer, rank, size int) error {
	for _, b := range [2]collective.Buffer{dst, src} {
		if err := checkBuffer(b); err != nil {
			return err
		}
	}
	if dst.DType != src.DType {
		return refuse("dst has elements of %v, src of %v", dst.DType, src.DType)
	}
	if dst.Place != src.Place {
		return refuse("dst lies in %v memory, src in %v memory", dst.Place, src.Place)
	}
	if s.kind == allReduce || s.kind == reduceScatter {
		if _, ok := reductions[s.reduce]; !ok {
			return refuse("unknown reduction %v", s.reduce)
		}
	}
	switch s.kind {
	case broadcast:
		if s.root < 0 || s.root >= size {
			return refuse("root %d is no rank of a group of %d", s.root, size)
		}
	case allGather:
		if dst.Count != src.Count*size {
			return refuse("dst has %d elements; %d ranks with %d each make %d", dst.Count, size, src.Count, src.Count*size)
		}
		return checkOverlap(dst, src, rank)
	case reduceScatter:
		if src.Count != dst.Count*size {
			return refuse("src has %d elements; %d ranks with %d each make %d", src.Count, size, dst.Count, dst.Count*size)
		}
		return checkOverlap(src, dst, rank)
	}
	return nil
}

func checkBuffer(b collective.Buffer) error {
	switch {
	case b.Place != collective.Host && b.Place != collective.CUDA:
		return refuse("the buffer lies in %v memory; this backend reaches cuda and host memory", b.Place)
	case b.DType.Size() == 0:
		return refuse("unknown element type %v", b.DType)
	case b.Count < 0:
		return refuse("a count of %d", b.Count)
	case b.Count > 0 && b.Ptr == nil:
		return refuse("a nil buffer of %d elements", b.Count)
	case b.Place == collective.Host && b.Bytes() > maxHost:
		return refuse("a host buffer of %d bytes is larger than %d; put it into cuda memory", b.Bytes(), maxHost)
	}
	return nil
}

// checkOverlap allows part to be the rank's own part of whole, as NCCL does,
// and refuses any other overlap.
func checkOverlap(whole, part collective.Buffer, rank int) error {
	if part.Bytes() == 0 {
		return nil
	}
	w, p := uintptr(whole.Ptr), uintptr(part.Ptr)
	if p+uintptr(part.Bytes()) <= w || w+uintptr(whole.Bytes()) <= p || p == w+uintptr(rank*part.Bytes()) {
		return nil
	}
	return refuse("the buffers overlap; in place, the smaller one is part %d of the larger", rank)
}
