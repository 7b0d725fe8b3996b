package allocator

import (
	"errors"
	"slices"
)

// segment takes a new segment that holds a block of size bytes from the
// device, giving cached memory back where that is what it takes.
func (a *Allocator) segment(size int, s Stream) (*block, error) {
	if err := a.collect(); err != nil {
		return nil, err
	}
	bytes := segmentFor(size)
	addr, err := a.take(bytes)
	if errors.Is(err, ErrNoMemory) && a.opt.MaxSplit > 0 {
		var freed bool
		if freed, err = a.freeOversize(bytes, s); err == nil {
			err = ErrNoMemory
			if freed {
				addr, err = a.take(bytes)
			}
		}
	}
	if errors.Is(err, ErrNoMemory) {
		a.stats.Retries++
		if err = a.emptyCache(); err == nil {
			addr, err = a.take(bytes)
		}
	}
	if err != nil {
		return nil, err
	}
	b := a.newBlock()
	*b = block{addr: addr, size: bytes, stream: s, kind: kindOf(size), users: b.users[:0]}
	a.stats.DeviceAllocs++
	a.stats.Segments.add(b.kind, 1)
	a.stats.ReservedBytes.add(b.kind, bytes)
	if a.oversize(bytes) {
		a.stats.OversizeSegments.add(1)
	}
	return b, nil
}

// take asks the device, unless the limit forbids it.
func (a *Allocator) take(bytes int) (uintptr, error) {
	if a.opt.Limit > 0 && a.stats.ReservedBytes[All].Current+bytes > a.opt.Limit {
		return 0, ErrNoMemory
	}
	return a.driver.Alloc(bytes)
}

func (a *Allocator) oversize(size int) bool { return a.opt.MaxSplit > 0 && size >= a.opt.MaxSplit }

// emptyCache waits for pending events and gives all unsplit cached segments
// back.
func (a *Allocator) emptyCache() error {
	if a.closed {
		return nil
	}
	a.stats.SyncAllStreams++
	for len(a.events) > 0 {
		if err := a.driver.Wait(a.events[0].event); err != nil {
			return err
		}
		if err := a.drop(0); err != nil {
			return err
		}
	}
	return a.giveBack(func(b *block) bool { return !b.split() })
}

// giveBack frees the cached segments that which picks.
func (a *Allocator) giveBack(which func(*block) bool) error {
	synced := false
	var errs []error
	for _, lists := range a.free {
		for _, l := range lists {
			l.blocks = slices.DeleteFunc(l.blocks, func(b *block) bool {
				if !which(b) {
					return false
				}
				if !synced { // its stream may still use it
					errs = append(errs, a.driver.Synchronize())
					synced = true
				}
				errs = append(errs, a.giveBackOne(b))
				return true
			})
		}
	}
	return errors.Join(errs...)
}

func (a *Allocator) giveBackOne(b *block) error {
	a.stats.DeviceFrees++
	a.stats.Segments.add(b.kind, -1)
	a.stats.ReservedBytes.add(b.kind, -b.size)
	if a.oversize(b.size) {
		a.stats.OversizeSegments.add(-1)
	}
	a.spare = append(a.spare, b)
	return a.driver.Free(b.addr)
}

// freeOversize gives cached blocks that are never split back: the smallest one
// that is enough, or the largest ones until they are. It says whether they
// were.
func (a *Allocator) freeOversize(bytes int, s Stream) (bool, error) {
	var picked []*block
	total := 0
	blocks := a.list(large, s).blocks
	for _, b := range blocks {
		if b.size >= max(bytes, a.opt.MaxSplit) && !b.split() {
			picked, total = []*block{b}, b.size
			break
		}
	}
	for i := len(blocks) - 1; i >= 0 && total < bytes && blocks[i].size >= a.opt.MaxSplit; i-- {
		if !blocks[i].split() {
			picked = append(picked, blocks[i])
			total += blocks[i].size
		}
	}
	if total < bytes {
		return false, nil
	}
	return true, a.giveBack(func(b *block) bool { return slices.Contains(picked, b) })
}

// collect gives old cached segments back when more than the threshold is
// reserved: those that have not been wanted for longer than the average, until
// enough is free.
func (a *Allocator) collect() error {
	target := a.stats.ReservedBytes[All].Current - int(a.opt.GCThreshold*float64(a.opt.Limit))
	if a.opt.GCThreshold == 0 || target <= 0 {
		return nil
	}
	for freed, more := 0, true; more && freed < target; {
		var ages, count uint64
		for _, l := range a.free[large] {
			for _, b := range l.blocks {
				if !b.split() {
					ages += a.searches - b.freedAt
					count++
				}
			}
		}
		if count == 0 {
			return nil
		}
		more = false
		err := a.giveBack(func(b *block) bool {
			if b.kind != large || b.split() || freed >= target || (a.searches-b.freedAt)*count < ages {
				return false
			}
			freed += b.size
			more = true
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
