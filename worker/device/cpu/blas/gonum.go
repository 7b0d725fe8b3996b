package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// pureGo runs everywhere.
type pureGo struct{ impl gonum.Implementation }

func (pureGo) Name() string { return "gonum" }

func (pureGo) Describe() string {
	return "gonum (pure Go; " + hint + " for about 7 times the speed)"
}

func (pureGo) SetThreads(int) {}

func (p pureGo) SGEMM(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) error {
	o := operands{transA, transB, m, n, k, a, lda, b, ldb, c, ldc}
	if err := o.check(); err != nil {
		return err
	}
	if o.empty(alpha) {
		o.scale(beta)
		return nil
	}
	p.impl.Sgemm(transpose(transA), transpose(transB), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	return nil
}

func transpose(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}
