//go:build cgo && linux && !nodl

package probe

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
//
// static size_t ddprun_size(void *f) { return ((size_t (*)(void))f)(); }
// static const char *ddprun_text(void *f) { return ((const char *(*)(void))f)(); }
// static int ddprun_property(void *f, int which) {
//   int value = -1;
//   return ((int (*)(int, int *))f)(which, &value) == 0 ? value : -1;
// }
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ddprun/ddprun/nccl"
)

// Libraries opens the libraries that training uses and asks for their versions.
// Only a short-lived process may call it.
func Libraries() []Library {
	out := []Library{ncclLibrary()}
	s := machineSearch()
	for _, w := range wantedLibraries {
		out = append(out, w.open(s)...)
	}
	return out
}

func ncclLibrary() Library {
	l := Library{Name: "NCCL"}
	opened, err := nccl.Open()
	if err != nil {
		l.Tried = strings.Split(err.Error(), "\n")
		return l
	}
	l.Path, l.Version = loadedFrom("libnccl.so", opened.Path()), opened.Version().String()
	l.CUDA = ncclCUDA(l.Path)
	return l
}

// open opens each version of a library that is there; with none, the one
// answer says what was tried.
func (w wanted) open(s search) []Library {
	var out []Library
	none := Library{Name: w.name}
	for _, soname := range w.sonames {
		for _, path := range w.candidates(s, soname) {
			h, err := open(path)
			if err != nil {
				none.Tried = append(none.Tried, err.Error())
				continue
			}
			l := Library{Name: w.name, Path: loadedFrom(soname, path)}
			h.describe(&l)
			out = append(out, l)
			break
		}
	}
	if len(out) == 0 {
		return []Library{none}
	}
	return out
}

// handle is a library that stays open until the process ends.
type handle struct{ at unsafe.Pointer }

func open(path string) (handle, error) {
	runtime.LockOSThread() // dlerror belongs to the thread
	defer runtime.UnlockOSThread()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	at := C.dlopen(name, C.RTLD_LAZY|C.RTLD_LOCAL)
	if at == nil {
		if text := C.dlerror(); text != nil {
			return handle{}, errors.New(C.GoString(text))
		}
		return handle{}, fmt.Errorf("%s: cannot be opened", path)
	}
	return handle{at}, nil
}

// symbol is the address of a function, nil if the library has none of the name.
func (h handle) symbol(name string) unsafe.Pointer {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.dlsym(h.at, c)
}

// number calls a function without arguments that returns a size_t.
func (h handle) number(name string) int {
	f := h.symbol(name)
	if f == nil {
		return 0
	}
	return int(C.ddprun_size(f))
}

func (h handle) describe(l *Library) {
	l.Version = fileVersion(l.Path)
	switch l.Name {
	case "cuBLAS":
		l.CUDA = h.number("cublasLtGetCudartVersion")
		if f := h.symbol("cublasLtGetProperty"); f != nil { // 0 major, 1 minor, 2 patch
			l.Version = fmt.Sprintf("%d.%d.%d", C.ddprun_property(f, 0), C.ddprun_property(f, 1), C.ddprun_property(f, 2))
		}
	case "cuDNN":
		l.CUDA = h.number("cudnnGetCudartVersion")
		if n := h.number("cudnnGetVersion"); n > 0 {
			l.Version = cudnnVersion(n)
		}
	case "OpenBLAS":
		if f := h.symbol("openblas_get_config"); f != nil {
			// "OpenBLAS 0.3.21 NO_AFFINITY Zen MAX_THREADS=64"
			if words := strings.Fields(C.GoString(C.ddprun_text(f))); len(words) > 1 {
				l.Version = words[1]
			}
		}
	}
}

// loadedFrom is the file behind a library that the loader has found by name.
func loadedFrom(soname, opened string) string {
	if strings.Contains(opened, "/") {
		return opened
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return opened
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, path, ok := strings.Cut(lines.Text(), "/"); ok && strings.Contains(path[strings.LastIndex(path, "/")+1:], stem(soname)) {
			return "/" + path
		}
	}
	return opened
}
