//go:build cuda

package cublaslt

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "lt.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Oldest is the oldest version that is known to serve: the epilogues are of
// 11.6.
const Oldest = 110600

// Library is an opened libcublasLt. It stays loaded until the process ends.
type Library struct {
	lt      *C.ddp_lt
	path    string
	version int
}

// Open opens libcublasLt: the one that DDPRUN_CUBLASLT names (a file or its
// folder), else the first usable one of the loader's path, CUDA's folders, and
// the site-packages of the environment's Pythons. The error (exit class
// Machine) lists what was looked for where.
func Open() (*Library, error) {
	s := search{env: os.Getenv, glob: func(pattern string) []string {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern: a path with a bracket, say
		return found
	}}
	found, without := s.places()
	var tried []error
	for _, p := range found {
		l, err := openAt(p.path)
		if err == nil {
			return l, nil
		}
		tried = append(tried, fmt.Errorf("%s (from %s): %w", p.path, p.from, err))
	}
	return nil, exitcode.With(notFound(tried, without), exitcode.Machine)
}

func openAt(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why *C.char
	lt := C.ddp_lt_open(name, &why)
	if lt == nil {
		defer C.free(unsafe.Pointer(why))
		return nil, fmt.Errorf("%s", C.GoString(why))
	}
	v := int(C.ddp_lt_version(lt))
	if v < Oldest {
		return nil, fmt.Errorf("it is version %d, too old: %d is the oldest", v, Oldest)
	}
	return &Library{lt: lt, path: path, version: v}, nil
}

// Version is the version as a person writes it: 13.1.0.
func (l *Library) Version() string {
	v := l.version
	if v >= 1_000_000 { // a digit more for the minor version
		v /= 10
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// Path is what was opened.
func (l *Library) Path() string { return l.path }

// StatusError is a status other than success.
type StatusError struct {
	Call   string
	Status int
	Text   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %s (status %d)", e.Call, e.Text, e.Status)
}

func (l *Library) check(call string, s C.int) error {
	if s == 0 {
		return nil
	}
	return &StatusError{Call: call, Status: int(s), Text: C.GoString(C.ddp_lt_status(l.lt, s))}
}
