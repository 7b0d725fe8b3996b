package allocator

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
)

// Allocator hands out device memory. Its methods may be called from any
// goroutine.
type Allocator struct {
	driver Driver
	opt    Options

	mu       sync.Mutex
	free     [2]map[Stream]*freeList
	blocks   map[uintptr]*block // handed out
	events   []waiting          // in the order of their recording
	late     []Stream           // scratch of reap
	spare    []*block           // block structs to use again
	searches uint64
	stats    Stats
	closed   bool
}

// waiting is a freed block that a stream may still use.
type waiting struct {
	stream Stream
	event  Event
	block  *block
}

// New returns an allocator that holds no memory yet.
func New(d Driver, o Options) (*Allocator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Allocator{driver: d, opt: o, blocks: map[uintptr]*block{}}
	a.free[small], a.free[large] = map[Stream]*freeList{}, map[Stream]*freeList{}
	a.stats.MaxSplit = o.MaxSplit
	return a, nil
}

// Alloc hands out at least bytes bytes for work of the stream, aligned to 512.
// The tag names the memory in messages. Without memory the error is an
// *OutOfMemory.
func (a *Allocator) Alloc(bytes int, s Stream, tag string) (uintptr, error) {
	if bytes < 0 || bytes > math.MaxInt-largeSegment {
		return 0, fmt.Errorf("allocator: %s: %d bytes", tag, bytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, fmt.Errorf("allocator: %s: the device is closed", tag)
	}
	if err := a.reap(); err != nil {
		return 0, err
	}
	size := a.opt.round(bytes)
	b := a.search(size, s)
	if b == nil {
		var err error
		if b, err = a.segment(size, s); errors.Is(err, ErrNoMemory) {
			a.stats.OOMs++
			return 0, a.outOfMemory(bytes, size, tag)
		} else if err != nil {
			return 0, fmt.Errorf("allocator: %s, %d bytes: %w", tag, bytes, err)
		}
	}
	b = a.cut(b, size)
	b.live, b.requested, b.tag = true, bytes, tag
	a.blocks[b.addr] = b
	a.stats.handOut(b)
	return b.addr, nil
}

// Free takes back what Alloc handed out.
func (a *Allocator) Free(addr uintptr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	b := a.blocks[addr]
	if b == nil {
		return fmt.Errorf("allocator: %#x was not handed out, or is freed already", addr)
	}
	delete(a.blocks, addr)
	b.live = false
	a.stats.takeBack(b)
	for _, s := range b.users {
		b.pending++
		e, err := a.driver.Record(s)
		if err != nil {
			// Nobody can tell when the block is free, so it never is.
			return fmt.Errorf("allocator: %s: event on another stream: %w", b.tag, err)
		}
		a.events = append(a.events, waiting{s, e, b})
	}
	b.users = b.users[:0]
	if b.pending == 0 {
		a.release(b)
	}
	return nil
}

// RecordStream notes that work of stream s uses the memory at addr, which was
// allocated for another stream.
func (a *Allocator) RecordStream(addr uintptr, s Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.blocks[addr]
	if b == nil {
		return fmt.Errorf("allocator: %#x was not handed out", addr)
	}
	if s != b.stream && !slices.Contains(b.users, s) {
		b.users = append(b.users, s)
	}
	return nil
}

// StreamOf is the stream that the memory at addr was allocated for; false if
// it was not handed out.
func (a *Allocator) StreamOf(addr uintptr) (Stream, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.blocks[addr]
	if b == nil {
		return 0, false
	}
	return b.stream, true
}

// EmptyCache waits for freed memory that other streams still use and gives all
// segments without a live block back to the device.
func (a *Allocator) EmptyCache() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.emptyCache()
}

// Close gives every segment back, also those with live blocks.
func (a *Allocator) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	errs := []error{a.driver.Synchronize()}
	for _, w := range a.events {
		errs = append(errs, a.driver.Release(w.event))
	}
	for addr := range a.segments() {
		errs = append(errs, a.driver.Free(addr))
	}
	a.events, a.blocks = nil, map[uintptr]*block{}
	a.free[small], a.free[large] = map[Stream]*freeList{}, map[Stream]*freeList{}
	a.stats = Stats{}
	return errors.Join(errs...)
}

// segments is the first address and the size of every segment.
func (a *Allocator) segments() map[uintptr]int {
	out := map[uintptr]int{}
	add := func(b *block) {
		for b.prev != nil {
			b = b.prev
		}
		if _, seen := out[b.addr]; seen {
			return
		}
		first := b.addr
		for ; b != nil; b = b.next {
			out[first] += b.size
		}
	}
	for b := range maps.Values(a.blocks) {
		add(b)
	}
	for _, w := range a.events {
		add(w.block)
	}
	for _, lists := range a.free {
		for _, l := range lists {
			for _, b := range l.blocks {
				add(b)
			}
		}
	}
	return out
}

// list is the free blocks of a pool and stream.
func (a *Allocator) list(k kind, s Stream) *freeList {
	l := a.free[k][s]
	if l == nil {
		l = &freeList{}
		a.free[k][s] = l
	}
	return l
}

// search takes the best fitting free block out of its pool, nil if there is
// none: with MaxSplit, blocks that are never split serve requests of about
// their size only.
func (a *Allocator) search(size int, s Stream) *block {
	a.searches++
	l := a.list(kindOf(size), s)
	b := l.fit(size)
	if b == nil {
		return nil
	}
	if limit := a.opt.MaxSplit; limit > 0 {
		if size < limit && b.size >= limit || size >= limit && b.size >= size+largeSegment {
			return nil
		}
	}
	l.remove(b)
	return b
}

// cut makes b exactly size long where splitting is allowed; what is left goes
// back to the pool.
func (a *Allocator) cut(b *block, size int) *block {
	was := b.split()
	if !a.splits(b, size) {
		if was {
			a.stats.InactiveSplit.add(b.kind, -1)
			a.stats.InactiveSplitBytes.add(b.kind, -b.size)
		}
		return b
	}
	rest := b
	b = a.newBlock()
	*b = block{addr: rest.addr, size: size, stream: rest.stream, kind: rest.kind, prev: rest.prev, next: rest, users: b.users[:0]}
	if b.prev != nil {
		b.prev.next = b
	}
	rest.prev, rest.addr, rest.size = b, rest.addr+uintptr(size), rest.size-size
	rest.freedAt = a.searches
	a.list(rest.kind, rest.stream).insert(rest)
	if was {
		a.stats.InactiveSplitBytes.add(b.kind, -size)
	} else {
		a.stats.InactiveSplit.add(b.kind, 1)
		a.stats.InactiveSplitBytes.add(b.kind, rest.size)
	}
	return b
}

// splits says whether a block that serves size bytes is cut.
func (a *Allocator) splits(b *block, size int) bool {
	rest := b.size - size
	if b.kind == small {
		return rest >= minBlock
	}
	return rest > smallSize && (a.opt.MaxSplit == 0 || size < a.opt.MaxSplit)
}

// release puts a block that nothing uses any more back into its pool, joined
// with free neighbours.
func (a *Allocator) release(b *block) {
	a.stats.settle(b)
	for _, n := range []*block{b.prev, b.next} {
		if n == nil || n.live || n.pending > 0 {
			continue
		}
		a.list(n.kind, n.stream).remove(n)
		a.stats.InactiveSplit.add(b.kind, -1)
		a.stats.InactiveSplitBytes.add(b.kind, -n.size)
		b.join(n)
		a.spare = append(a.spare, n)
	}
	b.freedAt = a.searches
	a.list(b.kind, b.stream).insert(b)
	if b.split() {
		a.stats.InactiveSplit.add(b.kind, 1)
		a.stats.InactiveSplitBytes.add(b.kind, b.size)
	}
}

// join makes the neighbour n a part of b.
func (b *block) join(n *block) {
	if n == b.prev {
		b.addr = n.addr
		if b.prev = n.prev; b.prev != nil {
			b.prev.next = b
		}
	} else if b.next = n.next; b.next != nil {
		b.next.prev = b
	}
	b.size += n.size
}

func (a *Allocator) newBlock() *block {
	if n := len(a.spare); n > 0 {
		b := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return b
	}
	return &block{}
}

// reap puts blocks whose events are done back into their pools. Events of one
// stream are done in order, so it asks no further than a stream's first that is
// not.
func (a *Allocator) reap() error {
	if len(a.events) == 0 {
		return nil
	}
	a.late = a.late[:0]
	for i := 0; i < len(a.events); {
		w := a.events[i]
		if slices.Contains(a.late, w.stream) {
			i++
			continue
		}
		done, err := a.driver.Done(w.event)
		if err != nil {
			return fmt.Errorf("allocator: event of %s: %w", w.block.tag, err)
		}
		if !done {
			a.late = append(a.late, w.stream)
			i++
			continue
		}
		if err := a.drop(i); err != nil {
			return err
		}
	}
	return nil
}

// drop ends the wait for event i.
func (a *Allocator) drop(i int) error {
	w := a.events[i]
	a.events = slices.Delete(a.events, i, i+1)
	if w.block.pending--; w.block.pending == 0 {
		a.release(w.block)
	}
	return a.driver.Release(w.event)
}
