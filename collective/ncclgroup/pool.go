package ncclgroup

import (
	"errors"
	"fmt"
	"sync"
)

// eventPool keeps CUDA events for reuse: making one takes longer than a small
// transfer.
type eventPool struct {
	dev   Device
	mu    sync.Mutex
	timed map[uintptr]bool // all that were made
	free  [2][]uintptr     // plain, timed
}

func newEventPool(d Device) *eventPool { return &eventPool{dev: d, timed: map[uintptr]bool{}} }

func index(timed bool) int {
	if timed {
		return 1
	}
	return 0
}

func (p *eventPool) get(timed bool) (uintptr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := &p.free[index(timed)]
	if n := len(*list); n > 0 {
		e := (*list)[n-1]
		*list = (*list)[:n-1]
		return e, nil
	}
	e, err := p.dev.NewEvent(timed)
	if err != nil {
		return 0, fmt.Errorf("making an event: %w", err)
	}
	p.timed[e] = timed
	return e, nil
}

// put takes events back that nothing waits for any more; 0 is none.
func (p *eventPool) put(events ...uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if e != 0 {
			list := &p.free[index(p.timed[e])]
			*list = append(*list, e)
		}
	}
}

// drop frees all events, also those in use.
func (p *eventPool) drop() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.timed {
		err = errors.Join(err, p.dev.FreeEvent(e))
	}
	p.timed, p.free = map[uintptr]bool{}, [2][]uintptr{}
	return err
}

// Sizes of staging memory in bytes.
const (
	smallSlot = 64 << 10
	keptSlot  = 4 << 20 // larger ones are freed after use
	maxHost   = 1 << 30
)

// slot is pinned host memory and device memory of the same size, through which
// one host buffer passes.
type slot struct {
	addr   uintptr
	mem    []byte
	result []byte // the part of mem that goes back to the caller
}

// slotPool keeps slots for reuse. Only the executor takes and frees; anybody
// may give back.
type slotPool struct {
	dev  Device
	mu   sync.Mutex
	all  map[*slot]bool
	free []*slot
}

func newSlotPool(d Device) *slotPool { return &slotPool{dev: d, all: map[*slot]bool{}} }

// get returns a slot of at least n bytes.
func (p *slotPool) get(n int) (*slot, error) {
	if err := p.trim(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	for i, s := range p.free {
		if len(s.mem) >= n {
			p.free = append(p.free[:i], p.free[i+1:]...)
			p.mu.Unlock()
			return s, nil
		}
	}
	p.mu.Unlock()
	size := smallSlot
	for size < n {
		size *= 2
	}
	s := &slot{}
	var err error
	if s.mem, err = p.dev.AllocHost(size); err != nil {
		return nil, fmt.Errorf("pinned memory to stage a host buffer of %d bytes: %w", n, err)
	}
	if s.addr, err = p.dev.Alloc(size); err != nil {
		err = errors.Join(err, p.dev.FreeHost(s.mem))
		return nil, fmt.Errorf("device memory to stage a host buffer of %d bytes: %w", n, err)
	}
	p.mu.Lock()
	p.all[s] = true
	p.mu.Unlock()
	return s, nil
}

func (p *slotPool) put(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.result = nil
	p.free = append(p.free, s)
}

// trim frees the large slots that lie idle. It is not done where they become
// idle, since freeing may wait for the device.
func (p *slotPool) trim() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.free[:0]
	for _, s := range p.free {
		if len(s.mem) <= keptSlot {
			kept = append(kept, s)
			continue
		}
		err = errors.Join(err, p.release(s))
	}
	clear(p.free[len(kept):])
	p.free = kept
	return err
}

func (p *slotPool) release(s *slot) error {
	delete(p.all, s)
	return errors.Join(p.dev.Free(s.addr), p.dev.FreeHost(s.mem))
}

// drop frees all slots, also those in use.
func (p *slotPool) drop() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all {
		err = errors.Join(err, p.release(s))
	}
	p.free = nil
	return err
}
