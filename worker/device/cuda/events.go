//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
	"github.com/ddprun/ddprun/worker/device/cuda/driver"
)

// eventPool keeps events for reuse. It is safe for any goroutine, as releases
// of tensors need events too.
type eventPool struct {
	ctx  *driver.Context
	mu   sync.Mutex
	free []driver.Event
}

// record puts an event behind what the stream holds now.
func (p *eventPool) record(s driver.Stream) (driver.Event, error) {
	e, err := p.take()
	if err != nil {
		return 0, err
	}
	return e, p.ctx.Record(e, s)
}

func (p *eventPool) take() (driver.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		e := p.free[n-1]
		p.free = p.free[:n-1]
		return e, nil
	}
	return p.ctx.NewEvent(false)
}

func (p *eventPool) give(e driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, e)
}

func (p *eventPool) close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for _, e := range p.free {
		errs = append(errs, p.ctx.FreeEvent(e))
	}
	p.free = nil
	return errors.Join(errs...)
}

// Done, Wait and Forget make the pool the marks of the staging ring.
func (p *eventPool) Done(e driver.Event) (bool, error) { return p.ctx.Done(e) }

// Wait waits for a mark.
func (p *eventPool) Wait(e driver.Event) error { return p.ctx.WaitEvent(e) }

// Forget gives a mark back.
func (p *eventPool) Forget(e driver.Event) error {
	p.give(e)
	return nil
}

// source is the GPU as the allocator sees it.
type source struct {
	ctx    *driver.Context
	events *eventPool
}

func (s source) Alloc(bytes int) (uintptr, error) {
	addr, err := s.ctx.Alloc(bytes)
	if errors.Is(err, driver.OutOfMemory) {
		return 0, fmt.Errorf("%w: %w", allocator.ErrNoMemory, err)
	}
	return addr, err
}

func (s source) Free(addr uintptr) error           { return s.ctx.Free(addr) }
func (s source) MemInfo() (free, all int, e error) { return s.ctx.MemInfo() }
func (s source) Synchronize() error                { return s.ctx.Synchronize() }

func (s source) Record(st allocator.Stream) (allocator.Event, error) {
	e, err := s.events.record(driver.Stream(st))
	return allocator.Event(e), err
}

func (s source) Done(e allocator.Event) (bool, error) { return s.ctx.Done(driver.Event(e)) }
func (s source) Wait(e allocator.Event) error         { return s.ctx.WaitEvent(driver.Event(e)) }

func (s source) Release(e allocator.Event) error {
	s.events.give(driver.Event(e))
	return nil
}
