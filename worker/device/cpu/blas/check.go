package blas

import "fmt"

// operands are the sizes and storage of one product.
type operands struct {
	transA, transB bool
	m, n, k        int
	a              []float32
	lda            int
	b              []float32
	ldb            int
	c              []float32
	ldc            int
}

// check finds sizes that would read or write outside a slice.
func (o *operands) check() error {
	if o.m < 0 || o.n < 0 || o.k < 0 {
		return fmt.Errorf("sgemm: negative size: m %d, n %d, k %d", o.m, o.n, o.k)
	}
	ar, ac, br, bc := o.m, o.k, o.k, o.n
	if o.transA {
		ar, ac = ac, ar
	}
	if o.transB {
		br, bc = bc, br
	}
	if !fits(ar, ac, o.lda, len(o.a)) {
		return misfit("A", ar, ac, o.lda, len(o.a))
	}
	if !fits(br, bc, o.ldb, len(o.b)) {
		return misfit("B", br, bc, o.ldb, len(o.b))
	}
	if !fits(o.m, o.n, o.ldc, len(o.c)) {
		return misfit("C", o.m, o.n, o.ldc, len(o.c))
	}
	return nil
}

// maxDim keeps the sizes within what Fortran's integers hold, and products of
// two of them within an int.
const maxDim = 1<<31 - 1

func fits(rows, cols, ld, length int) bool {
	if ld < max(1, cols) || ld > maxDim || rows > maxDim {
		return false
	}
	return rows == 0 || cols == 0 || (rows-1)*ld+cols <= length
}

func misfit(name string, rows, cols, ld, length int) error {
	return fmt.Errorf("sgemm: matrix %s, stored %d×%d with rows %d apart, does not fit a slice of %d", name, rows, cols, ld, length)
}

// empty tells that there is no product to add.
func (o *operands) empty(alpha float32) bool {
	return o.m == 0 || o.n == 0 || o.k == 0 || alpha == 0
}

// scale sets C = beta·C.
func (o *operands) scale(beta float32) {
	if beta == 1 || o.n == 0 {
		return
	}
	for i := range o.m {
		row := o.c[i*o.ldc:][:o.n]
		if beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= beta
		}
	}
}
