package ncclgroup

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
)

// fakeDevice is a GPU made of goroutines: streams that run closures in order,
// events, and memory that only its addresses reach.
type fakeDevice struct {
	mu      sync.Mutex
	next    uintptr
	memory  map[uintptr][]byte
	pinned  int
	idle    map[int][][]byte // freed memory by size, given out again as it is
	streams map[uintptr]*fakeStream
	events  map[uintptr]*fakeEvent
	compute uintptr
	broken  error // what EventDone reports
	waits   int   // StreamWaitEvent calls on the compute stream
}

type fakeStream struct {
	jobs chan func()
	end  chan struct{}
}

type fakeEvent struct {
	timed bool
	done  chan struct{} // of the last record
	at    *time.Time    // of the last record, set when done
}

func newFakeDevice(t *testing.T) *fakeDevice {
	d := &fakeDevice{next: 1 << 20, memory: map[uintptr][]byte{}, idle: map[int][][]byte{}, streams: map[uintptr]*fakeStream{}, events: map[uintptr]*fakeEvent{}}
	d.compute, _ = d.NewStream()
	t.Cleanup(func() {
		_ = d.FreeStream(d.compute)
		d.mu.Lock()
		defer d.mu.Unlock()
		if n := len(d.streams) + len(d.events) + len(d.memory) + d.pinned; n > 0 {
			t.Errorf("left on the device: %d streams, %d events, %d allocations, %d pinned", len(d.streams), len(d.events), len(d.memory), d.pinned)
		}
	})
	return d
}

func (d *fakeDevice) handle() uintptr {
	d.next += 1 << 32
	return d.next
}

func (d *fakeDevice) Bind() error            { return nil }
func (d *fakeDevice) ComputeStream() uintptr { return d.compute }

func (d *fakeDevice) NewStream() (uintptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &fakeStream{jobs: make(chan func(), 1<<14), end: make(chan struct{})}
	h := d.handle()
	d.streams[h] = s
	go func() {
		defer close(s.end)
		for job := range s.jobs {
			job()
		}
	}()
	return h, nil
}

func (d *fakeDevice) FreeStream(h uintptr) error {
	d.mu.Lock()
	s := d.streams[h]
	delete(d.streams, h)
	d.mu.Unlock()
	if s == nil {
		return errors.New("no such stream")
	}
	close(s.jobs)
	<-s.end
	return nil
}

func (d *fakeDevice) put(stream uintptr, job func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.streams[stream]
	if s == nil {
		return errors.New("no such stream")
	}
	s.jobs <- job
	return nil
}

func (d *fakeDevice) NewEvent(timed bool) (uintptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.handle()
	d.events[h] = &fakeEvent{timed: timed}
	return h, nil
}

func (d *fakeDevice) FreeEvent(h uintptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events[h] == nil {
		return errors.New("no such event")
	}
	delete(d.events, h)
	return nil
}

func (d *fakeDevice) RecordEvent(event, stream uintptr) error {
	d.mu.Lock()
	e := d.events[event]
	if e == nil {
		d.mu.Unlock()
		return errors.New("no such event")
	}
	done, at := make(chan struct{}), new(time.Time)
	e.done, e.at = done, at
	d.mu.Unlock()
	return d.put(stream, func() {
		*at = time.Now()
		close(done)
	})
}

func (d *fakeDevice) StreamWaitEvent(stream, event uintptr) error {
	d.mu.Lock()
	e := d.events[event]
	if e == nil {
		d.mu.Unlock()
		return errors.New("no such event")
	}
	done := e.done
	if stream == d.compute {
		d.waits++
	}
	d.mu.Unlock()
	return d.put(stream, func() { <-done })
}

func (d *fakeDevice) EventDone(event uintptr) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.events[event]
	if e == nil {
		return false, errors.New("no such event")
	}
	if d.broken != nil {
		return false, d.broken
	}
	select {
	case <-e.done:
		return true, nil
	default:
		return false, nil
	}
}

func (d *fakeDevice) EventElapsed(start, end uintptr) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, b := d.events[start], d.events[end]
	if a == nil || b == nil || !a.timed || !b.timed {
		return 0, errors.New("no such timed events")
	}
	return b.at.Sub(*a.at), nil
}

func (d *fakeDevice) Alloc(bytes int) (uintptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.handle()
	d.memory[h] = d.take(bytes)
	return h, nil
}

func (d *fakeDevice) take(n int) []byte {
	if list := d.idle[n]; len(list) > 0 {
		d.idle[n] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return alignedBytes(n)
}

func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
}

func (d *fakeDevice) Free(addr uintptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory[addr] == nil {
		return errors.New("no such allocation")
	}
	mem := d.memory[addr]
	delete(d.memory, addr)
	d.idle[len(mem)] = append(d.idle[len(mem)], mem)
	return nil
}

func (d *fakeDevice) AllocHost(bytes int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned++
	return d.take(bytes), nil
}

func (d *fakeDevice) FreeHost(mem []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned--
	d.idle[len(mem)] = append(d.idle[len(mem)], mem)
	return nil
}

// at is the memory behind a device address.
func (d *fakeDevice) at(addr uintptr, n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	for base, mem := range d.memory {
		if addr >= base && addr+uintptr(n) <= base+uintptr(len(mem)) {
			return mem[addr-base:][:n]
		}
	}
	panic(fmt.Sprintf("illegal device address %#x", addr))
}

func (d *fakeDevice) CopyToDevice(dst uintptr, src []byte, stream uintptr) error {
	return d.put(stream, func() { copy(d.at(dst, len(src)), src) })
}

func (d *fakeDevice) CopyToHost(dst []byte, src uintptr, stream uintptr) error {
	return d.put(stream, func() { copy(dst, d.at(src, len(dst))) })
}

// tensor allocates device memory with the given contents.
func tensor[T collective.Element](t *testing.T, d *fakeDevice, v []T) (collective.Buffer, func() []T) {
	t.Helper()
	b := collective.HostBuffer(v)
	addr, _ := d.Alloc(b.Bytes())
	t.Cleanup(func() { _ = d.Free(addr) })
	mem := d.at(addr, b.Bytes())
	copy(mem, unsafe.Slice((*byte)(b.Ptr), b.Bytes()))
	b.Place, b.Ptr = collective.CUDA, *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return b, func() []T { return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), len(v)) }
}

// finish waits for a stream of the device.
func (d *fakeDevice) finish(stream uintptr) {
	done := make(chan struct{})
	_ = d.put(stream, func() { close(done) })
	<-done
}
