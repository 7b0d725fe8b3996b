package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", collective.ErrInvalid, fmt.Sprintf(format, args...))
}

// check says why a call cannot be right on any rank. part is the rank's own
// place in the larger buffer, for the operations that have one.
func check(s *spec, dst, src collective.Buffer, rank, size int) error {
	for _, b := range [2]collective.Buffer{dst, src} {
		if err := checkBuffer(b); err != nil {
			return err
		}
	}
	if dst.DType != src.DType {
		return refuse("dst has elements of %v, src of %v", dst.DType, src.DType)
	}
	switch s.op {
	case opAllReduce:
		return checkReduction(s)
	case opBroadcast:
		if s.root >= uint64(size) {
			return refuse("root %d is no rank of a group of %d", int64(s.root), size)
		}
	case opAllGather:
		if dst.Count != src.Count*size {
			return refuse("dst has %d elements; %d ranks with %d each make %d", dst.Count, size, src.Count, src.Count*size)
		}
		return checkOverlap(dst, src, rank)
	case opReduceScatter:
		if src.Count != dst.Count*size {
			return refuse("src has %d elements; %d ranks with %d each make %d", src.Count, size, dst.Count, dst.Count*size)
		}
		if err := checkReduction(s); err != nil {
			return err
		}
		return checkOverlap(src, dst, rank)
	}
	return nil
}

func checkBuffer(b collective.Buffer) error {
	switch {
	case b.Place != collective.Host:
		return refuse("the buffer lies in %v memory; this backend reaches host memory only", b.Place)
	case b.DType.Size() == 0:
		return refuse("unknown element type %v", b.DType)
	case b.Count < 0:
		return refuse("a count of %d", b.Count)
	case b.Count > 0 && b.Ptr == nil:
		return refuse("a nil buffer of %d elements", b.Count)
	}
	return nil
}

func checkReduction(s *spec) error {
	if reducerOf(s.dtype, s.reduce) == nil {
		return refuse("unknown reduction %v", s.reduce)
	}
	return nil
}

// checkOverlap allows part to be the rank's own part of whole and refuses any
// other overlap: peers' bytes would be written over bytes that are still to be
// read.
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

// memory is the bytes of a checked buffer.
func memory(b collective.Buffer) []byte {
	return unsafe.Slice((*byte)(b.Ptr), b.Bytes())
}

// aligned allocates memory that any element type may lie in.
func aligned(size int) []byte {
	words := make([]uint64, (size+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}
