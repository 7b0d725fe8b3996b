package cpu

import "fmt"

// gemm is C = alpha*op(A)*op(B) + beta*C, row-major with the given row
// lengths. The operators have checked the shapes, so a refusal (a dimension
// beyond the library's integers) is kept for failed.
func (d *Device) gemm(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	err := d.blas.SGEMM(ta, tb, m, n, k, alpha, a, max(lda, 1), b, max(ldb, 1), beta, c, max(ldc, 1))
	if err != nil && d.fault == nil {
		d.fault = err
	}
}

// failed returns the error of op's matrix products and forgets it.
func (d *Device) failed(op string) error {
	if d.fault == nil {
		return nil
	}
	err := fmt.Errorf("%s: %w", op, d.fault)
	d.fault = nil
	return err
}
