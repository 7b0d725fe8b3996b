//go:build cuda

package driver

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Alloc takes device memory.
func (c *Context) Alloc(bytes int) (addr uintptr, err error) {
	err = c.on("cuMemAlloc", func() error {
		p, err := cu.MemAlloc(int64(bytes))
		addr = uintptr(p)
		return err
	})
	return addr, err
}

// Free gives device memory back; it waits for the device.
func (c *Context) Free(addr uintptr) error {
	return c.on("cuMemFree", func() error { return cu.MemFree(cu.DevicePtr(addr)) })
}

// MemInfo is the free and the total memory of the device, in bytes.
func (c *Context) MemInfo() (free, total int, err error) {
	err = c.on("cuMemGetInfo", func() error {
		f, t, err := cu.MemInfo()
		free, total = int(f), int(t)
		return err
	})
	return free, total, err
}

// Pinned is host memory that the device reaches: copies from and to it run
// beside the host's work.
type Pinned struct {
	Bytes []byte
	Addr  uintptr // for kernels
}

// AllocHost takes pinned memory. It is not Go's: it must be freed.
func (c *Context) AllocHost(bytes int) (Pinned, error) {
	if bytes < 1 {
		return Pinned{}, fmt.Errorf("cuMemHostAlloc: %d bytes", bytes)
	}
	var mem unsafe.Pointer
	var device C.uint64_t
	if err := check("cuMemHostAlloc", C.ddp_host_alloc(c.c(), C.size_t(bytes), &mem, &device)); err != nil {
		return Pinned{}, fmt.Errorf("%d bytes of pinned host memory: %w", bytes, err)
	}
	return Pinned{Bytes: unsafe.Slice((*byte)(mem), bytes), Addr: uintptr(device)}, nil
}

// FreeHost gives pinned memory back; nil is nothing.
func (c *Context) FreeHost(mem []byte) error {
	if cap(mem) == 0 {
		return nil
	}
	return c.on("cuMemFreeHost", func() error { return cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(mem))) })
}

// Set fills count 32-bit words.
func (c *Context) Set(dst uintptr, value uint32, count int, s Stream) error {
	return check("cuMemsetD32Async", C.ddp_memset32(c.c(), C.uint64_t(dst), C.uint32_t(value), C.size_t(count), C.uintptr_t(s)))
}

// CopyToDevice enqueues a copy; src is pinned memory that must not change
// until it is done.
func (c *Context) CopyToDevice(dst uintptr, src []byte, s Stream) error {
	return check("cuMemcpyHtoDAsync", C.ddp_copy_to_device(c.c(), C.uint64_t(dst), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)), C.uintptr_t(s)))
}

// CopyToHost enqueues a copy; dst is pinned memory.
func (c *Context) CopyToHost(dst []byte, src uintptr, s Stream) error {
	return check("cuMemcpyDtoHAsync", C.ddp_copy_to_host(c.c(), unsafe.Pointer(unsafe.SliceData(dst)), C.uint64_t(src), C.size_t(len(dst)), C.uintptr_t(s)))
}

// CopyOnDevice enqueues a copy inside the device.
func (c *Context) CopyOnDevice(dst, src uintptr, bytes int, s Stream) error {
	return check("cuMemcpyDtoDAsync", C.ddp_copy_on_device(c.c(), C.uint64_t(dst), C.uint64_t(src), C.size_t(bytes), C.uintptr_t(s)))
}
