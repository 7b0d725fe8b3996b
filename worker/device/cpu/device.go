package cpu

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu/blas"
	"github.com/ddprun/ddprun/worker/tensor"
)

// T is a tensor in argument lists, as in package device.
type T = device.T

// Options chooses what computes.
type Options struct {
	Threads int    // threads of the matrix products; 0 means 1
	BLAS    string // library of the matrix products, as blas.Options.Library
}

// Device computes in host memory. It is used by one goroutine at a time;
// tensors may be released by any.
type Device struct {
	pool    *pool
	blas    blas.Provider
	threads int
	fault   error // of the first matrix product that was refused
	scratch []float32
}

var _ device.Device = (*Device)(nil)

// New opens the matrix product library and returns a device without memory;
// memory is taken at the first use.
func New(o Options) (*Device, error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("cpu device: %d threads", o.Threads)
	}
	threads := max(o.Threads, 1)
	p, err := blas.Open(blas.Options{Library: o.BLAS, Threads: threads})
	if err != nil {
		return nil, fmt.Errorf("cpu device: %w", err)
	}
	return &Device{pool: newPool(), blas: p, threads: threads}, nil
}

// Place is host memory.
func (d *Device) Place() tensor.Place { return tensor.Place{Kind: tensor.CPU} }

// Describe tells what multiplies matrices and with how many threads.
func (d *Device) Describe() string {
	return fmt.Sprintf("cpu, %s, threads %d", d.blas.Describe(), d.threads)
}

// Synchronize does nothing: every operator is done when its call returns.
func (d *Device) Synchronize() error { return nil }

// Stats tells the use of memory. Scratch memory of operators counts as
// reserved, not as allocated.
func (d *Device) Stats() device.MemoryStats { return d.pool.statistics() }

// Close gives all memory back to the system; no tensor may be used after.
func (d *Device) Close() error {
	d.scratch = nil
	return d.pool.close()
}

// workspace is scratch memory of n elements, with the contents the last user
// left. It is valid until the next call.
func (d *Device) workspace(n int) ([]float32, error) {
	if n > cap(d.scratch) {
		if d.scratch != nil {
			d.pool.put(d.scratch)
			d.scratch = nil
		}
		mem, err := d.pool.take(n)
		if err != nil {
			return nil, fmt.Errorf("scratch memory: %w", err)
		}
		d.scratch = mem
	}
	return d.scratch[:n], nil
}
