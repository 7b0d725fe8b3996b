//go:build !nodl && (linux || darwin) && (amd64 || arm64)

package blas

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

const hint = "install libopenblas0-pthread"

// candidates are the names under which OpenBLAS is looked for: what the
// loader finds by itself, then where distributions keep it when another BLAS
// has the plain name.
func candidates() []string {
	names := []string{
		"libopenblas.so.0", "libopenblas.so",
		"libopenblasp.so.0", // Fedora, with threads
		"libopenblas.dylib",
		"/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib",
	}
	for _, pattern := range []string{"/usr/lib/*/openblas-*/libopenblas.so.0", "/usr/lib64/libopenblas*.so.0"} {
		found, _ := filepath.Glob(pattern) // only a malformed pattern is an error
		names = append(names, found...)
	}
	return names
}

// shared is a BLAS library in this process; it stays loaded until the end.
type shared struct {
	text       string
	sgemm      uintptr
	setThreads uintptr // 0: the library has no such function
	calls      sync.Pool
}

// openLibrary loads the first of names that works.
func openLibrary(names []string, threads int) (Provider, error) {
	defer limitPool(threads)()
	var tried []error
	for _, name := range names {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		sgemm, err := purego.Dlsym(handle, "sgemm_")
		if err != nil {
			tried = append(tried, fmt.Errorf("%s has no sgemm_: %w", name, err))
			continue
		}
		s := &shared{text: describe(handle, name), sgemm: sgemm, calls: sync.Pool{New: newCall}}
		if f, err := purego.Dlsym(handle, "openblas_set_num_threads"); err == nil {
			s.setThreads = f
		}
		return s, nil
	}
	return nil, errors.Join(tried...)
}

// limitPool tells OpenBLAS, whose loading starts a thread for each core, to
// start fewer. It reads the variable while it is loaded, so the old value is
// put back after that.
func limitPool(threads int) (restore func()) {
	const name = "OPENBLAS_NUM_THREADS"
	if threads < 1 {
		return func() {}
	}
	old, had := os.LookupEnv(name)
	os.Setenv(name, strconv.Itoa(threads))
	return func() {
		if had {
			os.Setenv(name, old)
		} else {
			os.Unsetenv(name)
		}
	}
}

// describe asks OpenBLAS for version and kernel; another library gives only
// its name.
func describe(handle uintptr, name string) string {
	config := ask(handle, "openblas_get_config") // "OpenBLAS 0.3.21 NO_AFFINITY Zen MAX_THREADS=64"
	f := strings.Fields(config)
	if len(f) < 2 {
		return "BLAS library (" + name + ")"
	}
	text := f[0] + " " + f[1]
	if core := ask(handle, "openblas_get_corename"); core != "" {
		text += " " + core
	}
	return text + " (" + name + ")"
}

// ask calls a function without arguments that returns a C string.
func ask(handle uintptr, function string) string {
	f, err := purego.Dlsym(handle, function)
	if err != nil {
		return ""
	}
	var get func() string
	purego.RegisterFunc(&get, f)
	return get()
}

func (s *shared) Name() string     { return "openblas" }
func (s *shared) Describe() string { return s.text }

func (s *shared) SetThreads(n int) {
	if s.setThreads != 0 {
		purego.SyscallN(s.setThreads, uintptr(max(1, n)))
	}
}

// call is the argument list of one sgemm_. Fortran takes pointers only; all
// but those to the matrices point into the call itself and are set once.
//
// Passing the pointers as arguments of their own, each converted within the
// call, would be simpler, but costs an allocation for each product. This is as
// safe: what matrices point to is on the heap because they are stored here,
// heap objects do not move, and matrices keeps them alive.
type call struct {
	ta, tb                 byte
	m, n, k, lda, ldb, ldc int64 // a library with 32-bit integers reads the low half, which comes first on both architectures
	alpha, beta            float32

	matrices [3]unsafe.Pointer
	args     [15]uintptr
}

// Places of the matrices in args.
const (
	argA = 8
	argB = 6
	argC = 11
)

// newCall lays out the arguments. A row-major matrix is the column-major one
// of its transpose, and Cᵀ = op(B)ᵀ·op(A)ᵀ: the operands change places, the
// flags stay. The last two are the hidden lengths of Fortran's strings.
func newCall() any {
	f := new(call)
	f.args = [15]uintptr{
		uintptr(unsafe.Pointer(&f.tb)), uintptr(unsafe.Pointer(&f.ta)),
		uintptr(unsafe.Pointer(&f.n)), uintptr(unsafe.Pointer(&f.m)), uintptr(unsafe.Pointer(&f.k)),
		uintptr(unsafe.Pointer(&f.alpha)),
		0, uintptr(unsafe.Pointer(&f.ldb)),
		0, uintptr(unsafe.Pointer(&f.lda)),
		uintptr(unsafe.Pointer(&f.beta)),
		0, uintptr(unsafe.Pointer(&f.ldc)),
		1, 1,
	}
	return f
}

func (s *shared) SGEMM(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) error {
	o := operands{transA, transB, m, n, k, a, lda, b, ldb, c, ldc}
	if err := o.check(); err != nil {
		return err
	}
	if o.empty(alpha) {
		o.scale(beta)
		return nil
	}
	f := s.calls.Get().(*call)
	f.ta, f.tb = letter(transA), letter(transB)
	f.m, f.n, f.k = int64(m), int64(n), int64(k)
	f.lda, f.ldb, f.ldc = int64(lda), int64(ldb), int64(ldc)
	f.alpha, f.beta = alpha, beta
	f.matrices = [3]unsafe.Pointer{
		unsafe.Pointer(unsafe.SliceData(a)),
		unsafe.Pointer(unsafe.SliceData(b)),
		unsafe.Pointer(unsafe.SliceData(c)),
	}
	f.args[argA] = uintptr(f.matrices[0])
	f.args[argB] = uintptr(f.matrices[1])
	f.args[argC] = uintptr(f.matrices[2])
	purego.SyscallN(s.sgemm, f.args[:]...)
	f.matrices = [3]unsafe.Pointer{} // alive until here, and no longer
	s.calls.Put(f)
	return nil
}

func letter(transposed bool) byte {
	if transposed {
		return 'T'
	}
	return 'N'
}
