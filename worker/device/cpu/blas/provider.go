package blas

import (
	"fmt"
	"os"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Provider multiplies matrices. Its methods may be called by several
// goroutines at a time, SetThreads apart.
type Provider interface {
	// Name is the short name: "openblas", "avx2", "gonum".
	Name() string
	// Describe is one line for the start banner: version, place, and how to
	// get a faster provider where there is one.
	Describe() string
	// SGEMM sets C = alpha·op(A)·op(B) + beta·C for row-major matrices: op(A)
	// is m×k, op(B) k×n, C m×n, and op transposes where the flag is set, so
	// that A is then stored k×m. lda, ldb and ldc are the distances between
	// the starts of stored rows, in elements. C must not overlap A or B. With
	// beta 0 C is overwritten whatever it held; with alpha 0 A and B are not
	// read. An error means sizes that do not fit, and that nothing was done.
	SGEMM(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) error
	// SetThreads limits the threads that one product may use; n < 1 counts
	// as 1. gonum always uses GOMAXPROCS goroutines.
	SetThreads(n int)
}

// Options choose a provider.
type Options struct {
	// Library is "auto" (or empty: the environment variable DDPRUN_BLAS, then
	// auto), "openblas", "avx2", "gonum", or the file of a shared library that
	// has Fortran's sgemm_.
	Library string
	// Threads is the SetThreads value to start with; 0 leaves the provider's
	// default, which is all cores. With 1, OpenBLAS is loaded without its
	// thread pool.
	Threads int
}

// EnvLibrary names the library where Options do not.
const EnvLibrary = "DDPRUN_BLAS"

// Open returns the provider that o asks for; with "auto" the first that this
// machine has of OpenBLAS, the AVX2 kernel, gonum. It takes a few
// milliseconds when OpenBLAS has to be loaded.
func Open(o Options) (Provider, error) {
	choice := o.Library
	if choice == "" {
		choice = os.Getenv(EnvLibrary)
	}
	p, err := open(choice, o.Threads)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("matrix library %q: %w (set %s=auto for the best one there is)", choice, err, EnvLibrary), exitcode.Machine)
	}
	if o.Threads > 0 {
		p.SetThreads(o.Threads)
	}
	return p, nil
}

func open(choice string, threads int) (Provider, error) {
	switch choice {
	case "", "auto":
		if p, err := openLibrary(candidates(), threads); err == nil {
			return p, nil
		}
		if p, err := newPacked(); err == nil {
			return p, nil
		}
		return pureGo{}, nil
	case "openblas":
		return openLibrary(candidates(), threads)
	case "avx2":
		return newPacked()
	case "gonum":
		return pureGo{}, nil
	}
	return openLibrary([]string{choice}, threads)
}
