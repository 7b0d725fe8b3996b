package allocator

import (
	"cmp"
	"slices"
)

// kind is one of the two pools.
type kind uint8

const (
	small kind = iota
	large
)

// kindOf is the pool that serves blocks of a size.
func kindOf(size int) kind {
	if size <= smallSize {
		return small
	}
	return large
}

// block is a piece of a segment: handed out, or free, or freed but still
// waited for.
type block struct {
	addr       uintptr
	size       int
	requested  int
	stream     Stream
	kind       kind
	live       bool
	tag        string
	prev, next *block   // neighbours in the segment
	users      []Stream // other streams that have used it
	pending    int      // events that must be done before it is free
	freedAt    uint64   // count of searches when it became free
}

// split says whether the block is a part of its segment only.
func (b *block) split() bool { return b.prev != nil || b.next != nil }

// freeList is the free blocks of one pool and stream, by size and address.
type freeList struct{ blocks []*block }

func order(a, b *block) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.addr, b.addr))
}

func (l *freeList) insert(b *block) {
	i, _ := slices.BinarySearchFunc(l.blocks, b, order)
	l.blocks = slices.Insert(l.blocks, i, b)
}

func (l *freeList) remove(b *block) {
	if i, ok := slices.BinarySearchFunc(l.blocks, b, order); ok {
		l.blocks = slices.Delete(l.blocks, i, i+1)
	}
}

// fit is the smallest block of at least size, the lowest of equal ones.
func (l *freeList) fit(size int) *block {
	i, _ := slices.BinarySearchFunc(l.blocks, size, func(b *block, size int) int {
		return cmp.Compare(b.size, size)
	})
	if i == len(l.blocks) {
		return nil
	}
	return l.blocks[i]
}
