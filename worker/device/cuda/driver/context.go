//go:build cuda

package driver

// #cgo CFLAGS: -I/usr/local/cuda/include
// #cgo LDFLAGS: -L/usr/local/cuda/lib64 -L/usr/local/cuda/lib64/stubs -L/usr/lib/x86_64-linux-gnu/stubs -lcuda
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"
)

// Context is the primary context of a GPU, which cuBLAS and NCCL use too.
type Context struct {
	device cu.Device
	ctx    cu.CUContext
	handle uintptr
}

// Count is the number of GPUs that this process sees (CUDA_VISIBLE_DEVICES).
func Count() (int, error) {
	n, err := cu.NumDevices()
	return n, wrap("cuDeviceGetCount", err)
}

// Version is the CUDA version of the driver: 13000 for 13.0.
func Version() int { return cu.Version() }

// Retain takes a reference to the primary context of GPU index and makes it
// current on the calling OS thread.
func Retain(index int) (*Context, error) {
	n, err := Count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("this process sees no GPU: is CUDA_VISIBLE_DEVICES empty, or does the driver not run?")
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("there is no GPU %d: this process sees %d (CUDA_VISIBLE_DEVICES)", index, n)
	}
	d, err := cu.GetDevice(index)
	if err != nil {
		return nil, wrap("cuDeviceGet", err)
	}
	ctx, err := d.RetainPrimaryCtx()
	if err != nil {
		return nil, wrap("cuDevicePrimaryCtxRetain", err)
	}
	c := &Context{device: d, ctx: ctx, handle: handleOf(&ctx)}
	return c, c.Bind()
}

// handleOf is the handle in a struct of gorgonia.org/cu, all of which hold one
// pointer and nothing else but do not all give it out.
func handleOf[T cu.CUContext | cu.Stream | cu.Event | cu.Function](of *T) uintptr {
	return *(*uintptr)(unsafe.Pointer(of))
}

// wrapped is the struct of gorgonia.org/cu around a handle.
func wrapped[T cu.Module | cu.Stream | cu.Event](handle uintptr) T {
	return *(*T)(unsafe.Pointer(&handle))
}

// Release gives the reference up.
func (c *Context) Release() error {
	return wrap("cuDevicePrimaryCtxRelease", c.device.ReleasePrimaryCtx())
}

// Bind makes the context current on the calling OS thread.
func (c *Context) Bind() error { return wrap("cuCtxSetCurrent", cu.SetCurrentContext(c.ctx)) }

// on runs f, which calls gorgonia.org/cu, with the context current.
func (c *Context) on(call string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Bind(); err != nil {
		return err
	}
	return wrap(call, f())
}

// Synchronize waits for all work of the context.
func (c *Context) Synchronize() error { return c.on("cuCtxSynchronize", cu.Synchronize) }

// Properties are what a GPU is.
type Properties struct {
	Name            string
	Major, Minor    int // compute capability
	Multiprocessors int
	Bytes           int // of memory
	PCI             string
}

// Properties asks the device.
func (c *Context) Properties() (p Properties, err error) {
	name, err := c.device.Name()
	if err != nil {
		return p, wrap("cuDeviceGetName", err)
	}
	p.Name = name
	var bus, dev int
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		to        *int
	}{
		{cu.ComputeCapabilityMajor, &p.Major},
		{cu.ComputeCapabilityMinor, &p.Minor},
		{cu.MultiprocessorCount, &p.Multiprocessors},
		{cu.PciBusID, &bus},
		{cu.PciDeviceID, &dev},
	} {
		if *a.to, err = c.device.Attribute(a.attribute); err != nil {
			return p, wrap("cuDeviceGetAttribute", err)
		}
	}
	p.PCI = fmt.Sprintf("%02x:%02x", bus, dev)
	total, err := c.device.TotalMem()
	p.Bytes = int(total)
	return p, wrap("cuDeviceTotalMem", err)
}
