//go:build cuda

package ncclgroup

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver is as much of libcuda as the tests need.
type driver struct {
	context uintptr
	compute uintptr

	cuInit                   func(flags uint32) int32
	cuGetErrorName           func(code int32, name *unsafe.Pointer) int32
	cuDeviceGet              func(device *int32, ordinal int32) int32
	cuDevicePrimaryCtxRetain func(context *uintptr, device int32) int32
	cuCtxSetCurrent          func(context uintptr) int32
	cuStreamCreate           func(stream *uintptr, flags uint32) int32
	cuStreamDestroy          func(stream uintptr) int32
	cuStreamSynchronize      func(stream uintptr) int32
	cuStreamWaitEvent        func(stream, event uintptr, flags uint32) int32
	cuEventCreate            func(event *uintptr, flags uint32) int32
	cuEventDestroy           func(event uintptr) int32
	cuEventRecord            func(event, stream uintptr) int32
	cuEventQuery             func(event uintptr) int32
	cuEventElapsedTime       func(ms *float32, start, end uintptr) int32
	cuMemAlloc               func(addr *uintptr, bytes uintptr) int32
	cuMemFree                func(addr uintptr) int32
	cuMemHostAlloc           func(addr *unsafe.Pointer, bytes uintptr, flags uint32) int32
	cuMemFreeHost            func(addr unsafe.Pointer) int32
	cuMemcpyHtoDAsync        func(dst uintptr, src unsafe.Pointer, bytes uintptr, stream uintptr) int32
	cuMemcpyDtoHAsync        func(dst unsafe.Pointer, src uintptr, bytes uintptr, stream uintptr) int32
}

const (
	streamNonBlocking  = 1
	eventDisableTiming = 2
	errorNotReady      = 600
)

func openDriver() (*driver, error) {
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	d := &driver{}
	for name, f := range map[string]any{
		"cuInit": &d.cuInit, "cuGetErrorName": &d.cuGetErrorName, "cuDeviceGet": &d.cuDeviceGet,
		"cuDevicePrimaryCtxRetain": &d.cuDevicePrimaryCtxRetain, "cuCtxSetCurrent": &d.cuCtxSetCurrent,
		"cuStreamCreate": &d.cuStreamCreate, "cuStreamDestroy_v2": &d.cuStreamDestroy,
		"cuStreamSynchronize": &d.cuStreamSynchronize, "cuStreamWaitEvent": &d.cuStreamWaitEvent,
		"cuEventCreate": &d.cuEventCreate, "cuEventDestroy_v2": &d.cuEventDestroy,
		"cuEventRecord": &d.cuEventRecord, "cuEventQuery": &d.cuEventQuery, "cuEventElapsedTime": &d.cuEventElapsedTime,
		"cuMemAlloc_v2": &d.cuMemAlloc, "cuMemFree_v2": &d.cuMemFree,
		"cuMemHostAlloc": &d.cuMemHostAlloc, "cuMemFreeHost": &d.cuMemFreeHost,
		"cuMemcpyHtoDAsync_v2": &d.cuMemcpyHtoDAsync, "cuMemcpyDtoHAsync_v2": &d.cuMemcpyDtoHAsync,
	} {
		purego.RegisterLibFunc(f, lib, name)
	}
	var dev int32
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("cuInit", d.cuInit(0)); err != nil {
		return nil, err
	}
	if err := d.check("cuDeviceGet", d.cuDeviceGet(&dev, 0)); err != nil {
		return nil, err
	}
	if err := d.check("cuDevicePrimaryCtxRetain", d.cuDevicePrimaryCtxRetain(&d.context, dev)); err != nil {
		return nil, err
	}
	d.compute, err = d.NewStream()
	return d, err
}

func (d *driver) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	var name unsafe.Pointer
	if d.cuGetErrorName(code, &name) == 0 && name != nil {
		return fmt.Errorf("%s: %s", call, cString(name))
	}
	return fmt.Errorf("%s: error %d", call, code)
}

func cString(p unsafe.Pointer) string {
	var b []byte
	for i := 0; ; i++ {
		c := *(*byte)(unsafe.Add(p, i))
		if c == 0 {
			return string(b)
		}
		b = append(b, c)
	}
}

// in runs f with the context current.
func (d *driver) in(call string, f func() int32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("cuCtxSetCurrent", d.cuCtxSetCurrent(d.context)); err != nil {
		return err
	}
	return d.check(call, f())
}

var _ Device = (*driver)(nil)

func (d *driver) Bind() error            { return d.in("cuCtxSetCurrent", func() int32 { return 0 }) }
func (d *driver) ComputeStream() uintptr { return d.compute }

func (d *driver) NewStream() (s uintptr, err error) {
	err = d.in("cuStreamCreate", func() int32 { return d.cuStreamCreate(&s, streamNonBlocking) })
	return s, err
}

func (d *driver) FreeStream(s uintptr) error {
	return d.in("cuStreamDestroy", func() int32 { return d.cuStreamDestroy(s) })
}

func (d *driver) synchronize(s uintptr) error {
	return d.in("cuStreamSynchronize", func() int32 { return d.cuStreamSynchronize(s) })
}

func (d *driver) NewEvent(timed bool) (e uintptr, err error) {
	flags := uint32(eventDisableTiming)
	if timed {
		flags = 0
	}
	err = d.in("cuEventCreate", func() int32 { return d.cuEventCreate(&e, flags) })
	return e, err
}

func (d *driver) FreeEvent(e uintptr) error {
	return d.in("cuEventDestroy", func() int32 { return d.cuEventDestroy(e) })
}

func (d *driver) RecordEvent(e, s uintptr) error {
	return d.in("cuEventRecord", func() int32 { return d.cuEventRecord(e, s) })
}

func (d *driver) StreamWaitEvent(s, e uintptr) error {
	return d.in("cuStreamWaitEvent", func() int32 { return d.cuStreamWaitEvent(s, e, 0) })
}

func (d *driver) EventDone(e uintptr) (done bool, err error) {
	err = d.in("cuEventQuery", func() int32 {
		code := d.cuEventQuery(e)
		if code == errorNotReady {
			return 0
		}
		done = code == 0
		return code
	})
	return done, err
}

func (d *driver) EventElapsed(a, b uintptr) (time.Duration, error) {
	var ms float32
	err := d.in("cuEventElapsedTime", func() int32 { return d.cuEventElapsedTime(&ms, a, b) })
	return time.Duration(float64(ms) * 1e6), err
}

func (d *driver) Alloc(n int) (addr uintptr, err error) {
	err = d.in("cuMemAlloc", func() int32 { return d.cuMemAlloc(&addr, uintptr(n)) })
	return addr, err
}

func (d *driver) Free(addr uintptr) error {
	return d.in("cuMemFree", func() int32 { return d.cuMemFree(addr) })
}

func (d *driver) AllocHost(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := d.in("cuMemHostAlloc", func() int32 { return d.cuMemHostAlloc(&p, uintptr(n), 0) }); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func (d *driver) FreeHost(mem []byte) error {
	return d.in("cuMemFreeHost", func() int32 { return d.cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(mem))) })
}

func (d *driver) CopyToDevice(dst uintptr, src []byte, s uintptr) error {
	return d.in("cuMemcpyHtoDAsync", func() int32 {
		return d.cuMemcpyHtoDAsync(dst, unsafe.Pointer(unsafe.SliceData(src)), uintptr(len(src)), s)
	})
}

func (d *driver) CopyToHost(dst []byte, src uintptr, s uintptr) error {
	return d.in("cuMemcpyDtoHAsync", func() int32 {
		return d.cuMemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), src, uintptr(len(dst)), s)
	})
}
