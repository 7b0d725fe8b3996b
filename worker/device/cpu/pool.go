package cpu

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Blocks are whole cache lines, so that no two tensors share one and vector
// loops start aligned.
const (
	lineFloats = 16
	chunkBytes = 64 << 20 // address space only: untouched pages cost nothing
	classes    = 400      // enough for every size an int can count
	// nearClasses is how many larger classes are searched before fresh
	// memory is carved. Steps are an eighth to a sixteenth of the size, so a
	// block is lent to a request of at least two thirds of it.
	nearClasses = 4
)

// pool hands out blocks of host memory and keeps freed ones in lists by size
// class. Fresh pages are dear (the kernel zeroes each at its first touch), so
// nothing goes back to the system before close.
type pool struct {
	mu     sync.Mutex
	free   [classes][][]float32
	chunks []chunk
	rest   []float32 // of the newest chunk
	stats  device.MemoryStats
	closed bool
	give   func(*tensor.Storage) // p.release, bound once
}

// chunk is one piece of memory from the system.
type chunk struct {
	mem   []float32
	unmap func() error
}

func newPool() *pool {
	p := &pool{}
	p.give = p.release
	return p
}

// storage is counted memory of n elements.
func (p *pool) storage(n int) (*tensor.Storage, error) {
	mem, err := p.take(n)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.stats.Allocated += 4 * n
	p.stats.PeakAllocated = max(p.stats.PeakAllocated, p.stats.Allocated)
	p.mu.Unlock()
	return tensor.HostStorage(mem, p.give), nil
}

func (p *pool) release(s *tensor.Storage) {
	p.mu.Lock()
	if !p.closed {
		p.stats.Allocated -= s.Bytes()
	}
	p.mu.Unlock()
	p.put(s.Host())
}

// take returns a block of n elements whose capacity is its class's size.
func (p *pool) take(n int) ([]float32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("the device is closed")
	}
	first := classOf(n)
	for c := first; c <= first+nearClasses; c++ {
		if list := p.free[c]; len(list) > 0 {
			block := list[len(list)-1]
			p.free[c] = list[:len(list)-1]
			return block[:n], nil
		}
	}
	block, err := p.carve(classSize(first))
	if err != nil {
		return nil, err
	}
	return block[:n], nil
}

// put takes back a block of take.
func (p *pool) put(block []float32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	block = block[:cap(block)]
	c := classOf(len(block))
	p.free[c] = append(p.free[c], block)
}

// carve cuts size elements from the newest chunk, or from a fresh one. What is
// left of the old chunk stays untouched address space.
func (p *pool) carve(size int) ([]float32, error) {
	if size > len(p.rest) {
		mem, unmap, err := systemMemory(max(chunkBytes, 4*size))
		if err != nil {
			return nil, fmt.Errorf("%d MiB from the system: %w (the device has %d MiB, of which %d are in use; a smaller batch needs less)",
				4*size>>20, err, p.stats.Reserved>>20, p.stats.Allocated>>20)
		}
		p.chunks = append(p.chunks, chunk{mem, unmap})
		p.rest = mem
	}
	block := p.rest[:size:size]
	p.rest = p.rest[size:]
	p.stats.Reserved += 4 * size
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
	return block, nil
}

func (p *pool) statistics() device.MemoryStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.free, p.rest = [classes][][]float32{}, nil
	p.stats.Allocated, p.stats.Reserved = 0, 0
	var first error
	for _, c := range p.chunks {
		if err := c.unmap(); err != nil && first == nil {
			first = fmt.Errorf("cpu device: give back memory: %w", err)
		}
	}
	p.chunks = nil
	return first
}

// classOf is the index of the smallest class that holds n elements. Up to 16
// cache lines each count is a class; above, eight classes lie between a power
// of two and the next, so at most an eighth of a block is lost.
func classOf(n int) int {
	lines := max((n+lineFloats-1)/lineFloats, 1)
	if lines <= 16 {
		return lines
	}
	shift := bits.Len(uint(lines-1)) - 4
	return 8*shift + (lines+1<<shift-1)>>shift
}

// classSize is the number of elements of class c's blocks.
func classSize(c int) int {
	if c <= 16 {
		return lineFloats * c
	}
	shift := (c - 9) / 8
	return lineFloats * (c - 8*shift) << shift
}
