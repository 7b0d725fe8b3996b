//go:build cuda

package driver

// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"
)

// Result is a CUresult other than success.
type Result int

// Results that callers look for.
const (
	OutOfMemory Result = 2
	NoDevice    Result = 100
	NotReady    Result = 600
)

// Error is the driver's own name and text.
func (r Result) Error() string {
	name, text := C.ddp_error_name(C.int(r)), C.ddp_error_text(C.int(r))
	if name == nil || text == nil {
		return fmt.Sprintf("CUDA error %d", int(r))
	}
	s := fmt.Sprintf("%s (%d): %s", C.GoString(name), int(r), C.GoString(text))
	if why := r.hint(); why != "" {
		s += "; " + why
	}
	return s
}

// hint says what to do about results whose text does not.
func (r Result) hint() string {
	switch r {
	case 700, 701, 715, 716, 717, 718, 719: // illegal address ... launch failed
		return "the device is unusable until the process ends; run with DDPRUN_CUDA_SYNC=1 to find the operator that did it"
	case 214, 220: // uncorrectable ECC error, NVLink
		return "the hardware failed: see dmesg for Xid messages, and take the GPU out of use"
	case 218, 221, 222: // invalid PTX, JIT compiler
		return "the driver is too old for the kernels of this binary, or its compiler is missing"
	}
	return ""
}

// check names the call that failed.
func check(call string, r C.int) error {
	if r == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", call, Result(r))
}

// wrap does the same for an error of gorgonia.org/cu, whose type of results is
// not exported.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if v := reflect.ValueOf(e); v.Kind() == reflect.Int {
			return fmt.Errorf("%s: %w", call, Result(v.Int()))
		}
	}
	return fmt.Errorf("%s: %w", call, err)
}
