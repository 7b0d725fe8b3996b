//go:build !purego

package blas

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Tile and block sizes. The kernel keeps a tile of C in registers. A panel of
// B (kBlock×tileCols, 16 KiB) stays in the first-level cache while the panels
// of A pass by, a block of A (mBlock×kBlock, 144 KiB) in the second level, a
// block of B (1 MiB) in the third.
const (
	tileRows = 6
	tileCols = 16
	kBlock   = 256
	mBlock   = 24 * tileRows
	nBlock   = 64 * tileCols
)

// packed multiplies with the AVX2 kernel, in the scheme of Goto and van de
// Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008): blocks of
// A and B are copied into the order in which the kernel reads them.
type packed struct {
	threads atomic.Int32
	space   sync.Pool
}

// workspace is what one goroutine packs into.
type workspace struct {
	a, b []float32
	edge [tileRows * tileCols]float32
}

func newPacked() (Provider, error) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil, errors.New("this processor has no AVX2 and FMA instructions")
	}
	p := &packed{}
	p.space.New = func() any { return new(workspace) }
	p.SetThreads(runtime.GOMAXPROCS(0))
	return p, nil
}

func (p *packed) Name() string { return "avx2" }

func (p *packed) Describe() string {
	return "built-in AVX2 kernel (" + hint + " to use OpenBLAS)"
}

func (p *packed) SetThreads(n int) { p.threads.Store(int32(min(max(1, n), 1024))) }

func (p *packed) SGEMM(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) error {
	o := operands{transA, transB, m, n, k, a, lda, b, ldb, c, ldc}
	if err := o.check(); err != nil {
		return err
	}
	if o.empty(alpha) {
		o.scale(beta)
		return nil
	}
	parts := p.split(o)
	if len(parts) == 0 {
		p.product(o, alpha, beta)
		return nil
	}
	var wg sync.WaitGroup
	for _, part := range parts[1:] {
		wg.Go(func() { p.product(part, alpha, beta) })
	}
	p.product(parts[0], alpha, beta)
	wg.Wait()
	return nil
}
