//go:build cuda

package driver

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// Module is loaded code, Function a kernel in it: CUDA's handles.
type (
	Module   uintptr
	Function uintptr
)

const jitLogBytes = 8 << 10

// Load compiles PTX for the device (the driver keeps the result in its cache
// on disk) and loads it.
func (c *Context) Load(ptx string) (Module, error) {
	image, log := C.CString(ptx), (*C.char)(C.malloc(jitLogBytes))
	defer C.free(unsafe.Pointer(image))
	defer C.free(unsafe.Pointer(log))
	var m C.uintptr_t
	err := check("cuModuleLoadDataEx", C.ddp_module_load(c.c(), image, &m, log, jitLogBytes))
	if err == nil {
		return Module(m), nil
	}
	if text := strings.TrimSpace(C.GoString(log)); text != "" {
		err = fmt.Errorf("%w; the driver's compiler says: %s", err, text)
	}
	return 0, err
}

// Unload ends a module.
func (c *Context) Unload(m Module) error {
	return c.on("cuModuleUnload", wrapped[cu.Module](uintptr(m)).Unload)
}

// Function finds a kernel by name.
func (c *Context) Function(m Module, name string) (f Function, err error) {
	err = c.on("cuModuleGetFunction", func() error {
		fn, err := wrapped[cu.Module](uintptr(m)).Function(name)
		f = Function(handleOf(&fn))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	return f, nil
}

// MaxArgs is the largest number of parameters of a kernel.
const MaxArgs = 32

// Dims are a launch's grid and block.
type Dims struct{ GridX, GridY, GridZ, BlockX, BlockY, BlockZ uint32 }

// Launch enqueues a kernel. Each argument is in the low bytes of its word.
func (c *Context) Launch(f Function, d *Dims, s Stream, args []uint64) error {
	return check("cuLaunchKernel", C.ddp_launch(c.c(), C.uintptr_t(f), (*C.uint32_t)(unsafe.Pointer(d)), C.uintptr_t(s), C.int(len(args)), (*C.uint64_t)(unsafe.SliceData(args))))
}
