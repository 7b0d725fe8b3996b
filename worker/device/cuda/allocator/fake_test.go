package allocator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// fake is a device of some memory whose streams do as much as the test says.
type fake struct {
	t        *testing.T
	total    int
	used     int
	next     uintptr
	segments map[uintptr]int
	marks    map[allocator.Event]allocator.Stream
	done     map[allocator.Event]bool
	lastMark allocator.Event
	waited   int
	refuse   error // of Alloc, in place of memory
}

func newFake(t *testing.T, total int) *fake {
	return &fake{
		t: t, total: total, next: 1 << 30, segments: map[uintptr]int{},
		marks: map[allocator.Event]allocator.Stream{}, done: map[allocator.Event]bool{},
	}
}

func (f *fake) Alloc(bytes int) (uintptr, error) {
	if f.refuse != nil {
		return 0, f.refuse
	}
	if bytes%(2*mib) != 0 {
		f.t.Errorf("a segment of %d bytes", bytes)
	}
	if f.used+bytes > f.total {
		return 0, fmt.Errorf("fake: %w", allocator.ErrNoMemory)
	}
	at := f.next
	f.next += uintptr(bytes) + 2*mib
	f.used += bytes
	f.segments[at] = bytes
	return at, nil
}

func (f *fake) Free(addr uintptr) error {
	n, ok := f.segments[addr]
	if !ok {
		return errors.New("fake: free of what was not allocated")
	}
	delete(f.segments, addr)
	f.used -= n
	return nil
}

func (f *fake) MemInfo() (free, total int, err error) { return f.total - f.used, f.total, nil }
func (f *fake) Synchronize() error                    { return nil }

func (f *fake) Record(s allocator.Stream) (allocator.Event, error) {
	f.lastMark++
	f.marks[f.lastMark] = s
	return f.lastMark, nil
}

func (f *fake) Done(e allocator.Event) (bool, error) {
	if _, ok := f.marks[e]; !ok {
		return false, errors.New("fake: no such event")
	}
	return f.done[e], nil
}

func (f *fake) Wait(e allocator.Event) error {
	f.waited++
	f.done[e] = true
	return nil
}

func (f *fake) Release(e allocator.Event) error {
	if !f.done[e] {
		f.t.Errorf("event %d was given back before it was done", e)
	}
	delete(f.marks, e)
	return nil
}

// finish lets the stream reach all its marks.
func (f *fake) finish(s allocator.Stream) {
	for e, of := range f.marks {
		if of == s {
			f.done[e] = true
		}
	}
}

// bench is an allocator with its device.
type bench struct {
	*testing.T
	*allocator.Allocator
	dev *fake
}

func open(t *testing.T, total int, o allocator.Options) bench {
	t.Helper()
	f := newFake(t, total)
	o.Device = "cuda:0"
	a, err := allocator.New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return bench{t, a, f}
}

func (b bench) alloc(bytes int, s allocator.Stream) uintptr {
	b.Helper()
	addr, err := b.Alloc(bytes, s, "tensor")
	b.ok(err)
	return addr
}

func (b bench) free(addrs ...uintptr) {
	b.Helper()
	for _, addr := range addrs {
		b.ok(b.Free(addr))
	}
}

func (b bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// want compares one number of the statistics.
func (b bench) want(what string, got, want int) {
	b.Helper()
	if got != want {
		b.Errorf("%s is %d, want %d", what, got, want)
	}
}
