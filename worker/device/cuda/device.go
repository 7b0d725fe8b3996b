//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
	"github.com/ddprun/ddprun/worker/device/cuda/cublaslt"
	"github.com/ddprun/ddprun/worker/device/cuda/driver"
	"github.com/ddprun/ddprun/worker/device/cuda/staging"
	"github.com/ddprun/ddprun/worker/tensor"
)

// T is a tensor in argument lists, as in package device.
type T = device.T

// Device is one GPU. It is used by the goroutine that opened it; tensors may
// be released by any.
type Device struct {
	opt    Options
	ctx    *driver.Context
	props  driver.Properties
	place  tensor.Place
	closed bool

	compute driver.Stream // of all operators
	copies  driver.Stream // of uploads into tensors of AllocInput
	events  *eventPool
	memory  *allocator.Allocator
	ring    *staging.Ring[driver.Event]
	pinned  []driver.Pinned // everything that Close frees
	down    [2]landing      // of Download
	fixed   []uintptr       // device memory outside the cache

	library *cublaslt.Library
	lt      *cublaslt.Handle
	code    code
	next    call // the launch being put together
	faults  faults
	lists   chunkList
	timing  [2]driver.Event // of Benchmark
	capture bool            // a graph is being captured
}

var _ device.Device = (*Device)(nil)

// Count is the number of GPUs that the process sees.
func Count() (int, error) { return driver.Count() }

// workspaceBytes is what cuBLASLt may use on Hopper, by its own advice.
const workspaceBytes = 32 << 20

// Open takes a GPU for the calling goroutine, which stays on its OS thread
// until Close.
func Open(o Options) (*Device, error) {
	runtime.LockOSThread()
	d := &Device{opt: o, place: tensor.Place{Kind: tensor.CUDA, Index: o.Index}, lists: chunkList{kept: map[string]*shelf{}}}
	for _, part := range []func() error{d.openContext, d.openMemory, d.openProducts} {
		if err := part(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.place, errors.Join(err, d.Close()))
		}
	}
	return d, nil
}

func (d *Device) openContext() (err error) {
	if d.ctx, err = driver.Retain(d.opt.Index); err != nil {
		return err
	}
	if d.props, err = d.ctx.Properties(); err != nil {
		return err
	}
	if d.compute, err = d.ctx.NewStream(); err != nil {
		return err
	}
	if d.copies, err = d.ctx.NewStream(); err != nil {
		return err
	}
	d.events = &eventPool{ctx: d.ctx}
	d.code = newCode(d.ctx)
	d.next.d = d
	return nil
}

func (d *Device) openMemory() (err error) {
	o := d.opt.Allocator
	o.Device = d.place.String()
	if d.memory, err = allocator.New(source{d.ctx, d.events}, o); err != nil {
		return err
	}
	p, err := d.pin(faultBytes)
	if err != nil {
		return err
	}
	d.faults = newFaults(p)
	return nil
}

func (d *Device) openProducts() (err error) {
	if d.library, err = cublaslt.Open(); err != nil {
		return err
	}
	workspace, err := d.fix(workspaceBytes)
	if err != nil {
		return err
	}
	d.lt, err = d.library.New(workspace, workspaceBytes)
	return err
}

// pin takes pinned host memory until Close.
func (d *Device) pin(bytes int) (driver.Pinned, error) {
	p, err := d.ctx.AllocHost(bytes)
	if err == nil {
		d.pinned = append(d.pinned, p)
	}
	return p, err
}

// fix takes device memory outside the cache, until Close.
func (d *Device) fix(bytes int) (uintptr, error) {
	addr, err := d.ctx.Alloc(bytes)
	if err == nil {
		d.fixed = append(d.fixed, addr)
	}
	return addr, err
}

// Place is the GPU's memory.
func (d *Device) Place() tensor.Place { return d.place }

// Describe tells what the GPU is and what multiplies matrices.
func (d *Device) Describe() string {
	v := driver.Version()
	arithmetic := "fp32"
	if d.opt.TF32 {
		arithmetic = "tf32"
	}
	return fmt.Sprintf("%s, %s (sm_%d%d, %d multiprocessors, %s), driver for CUDA %d.%d, cuBLASLt %s, %s",
		d.place, d.props.Name, d.props.Major, d.props.Minor, d.props.Multiprocessors, allocator.Size(d.props.Bytes),
		v/1000, v%1000/10, d.library.Version(), arithmetic)
}

// Synchronize waits for all streams and returns what went wrong on them.
func (d *Device) Synchronize() error {
	if err := d.ctx.Wait(d.copies); err != nil {
		return fmt.Errorf("%s: %w", d.place, err)
	}
	return d.wait()
}

// wait waits for the compute stream.
func (d *Device) wait() error {
	if err := d.ctx.Wait(d.compute); err != nil {
		return fmt.Errorf("%s: an operator enqueued before: %w", d.place, err)
	}
	return d.faults.take()
}

// Close waits for the GPU and frees everything; no tensor may be used after.
// The goroutine is no longer held to its OS thread.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	defer runtime.UnlockOSThread()
	if d.ctx == nil {
		return nil
	}
	errs := []error{d.ctx.Synchronize()}
	if d.lt != nil {
		errs = append(errs, d.lt.Close())
	}
	if d.memory != nil {
		errs = append(errs, d.memory.Close())
	}
	for _, addr := range d.fixed {
		errs = append(errs, d.ctx.Free(addr))
	}
	if d.ring != nil {
		errs = append(errs, d.ring.Drain())
	}
	for _, p := range d.pinned {
		errs = append(errs, d.ctx.FreeHost(p.Bytes))
	}
	errs = append(errs, d.code.close(), d.events.close())
	for _, s := range []driver.Stream{d.compute, d.copies} {
		if s != 0 {
			errs = append(errs, d.ctx.FreeStream(s))
		}
	}
	return errors.Join(append(errs, d.ctx.Release())...)
}
