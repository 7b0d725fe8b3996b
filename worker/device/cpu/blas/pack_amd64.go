//go:build !purego

package blas

// product adds alpha·op(A)·op(B) to beta·C on the calling goroutine. Each
// element of C is summed in the same order whatever the split over threads.
func (p *packed) product(o operands, alpha, beta float32) {
	o.scale(beta)
	w := p.space.Get().(*workspace)
	defer p.space.Put(w)
	for j := 0; j < o.n; j += nBlock {
		nb := min(nBlock, o.n-j)
		for d := 0; d < o.k; d += kBlock {
			kb := min(kBlock, o.k-d)
			w.packB(&o, d, kb, j, nb)
			for i := 0; i < o.m; i += mBlock {
				mb := min(mBlock, o.m-i)
				w.packA(&o, i, mb, d, kb)
				w.multiply(&o, i, mb, j, nb, kb, alpha)
			}
		}
	}
}

// multiply adds alpha times the product of the packed blocks to C from row i, column j.
func (w *workspace) multiply(o *operands, i, mb, j, nb, kb int, alpha float32) {
	for jj := 0; jj < nb; jj += tileCols {
		b := &w.b[jj*kb]
		cols := min(tileCols, nb-jj)
		for ii := 0; ii < mb; ii += tileRows {
			a := &w.a[ii*kb]
			rows := min(tileRows, mb-ii)
			at := (i+ii)*o.ldc + j + jj
			if rows == tileRows && cols == tileCols {
				tile6x16AVX2(kb, a, b, &o.c[at], o.ldc, alpha)
				continue
			}
			w.edge = [tileRows * tileCols]float32{}
			tile6x16AVX2(kb, a, b, &w.edge[0], tileCols, alpha)
			for r := range rows {
				c := o.c[at+r*o.ldc:][:cols]
				for x, v := range w.edge[r*tileCols:][:cols] {
					c[x] += v
				}
			}
		}
	}
}

// packA copies rows i..i+mb, columns d..d+kb of op(A) into panels of six rows,
// column by column; rows past the end are zero.
func (w *workspace) packA(o *operands, i, mb, d, kb int) {
	w.a = grown(w.a, (mb+tileRows-1)/tileRows*tileRows*kb)
	if o.transA {
		w.packColumns(o.a[d*o.lda+i:], o.lda, mb, kb)
		return
	}
	for ii := 0; ii < mb; ii += tileRows {
		dst := w.a[ii*kb:][:tileRows*kb]
		src := o.a[(i+ii)*o.lda+d:]
		if mb-ii >= tileRows {
			packSix(dst, src, o.lda, kb)
			continue
		}
		clear(dst)
		for r := range mb - ii {
			for p, v := range src[r*o.lda:][:kb] {
				dst[p*tileRows+r] = v
			}
		}
	}
}

// packSix interleaves six rows.
func packSix(dst, src []float32, ld, kb int) {
	r0, r1, r2 := src[:kb], src[ld:][:kb], src[2*ld:][:kb]
	r3, r4, r5 := src[3*ld:][:kb], src[4*ld:][:kb], src[5*ld:][:kb]
	for p := range r0 {
		q := (*[tileRows]float32)(dst)
		q[0], q[1], q[2], q[3], q[4], q[5] = r0[p], r1[p], r2[p], r3[p], r4[p], r5[p]
		dst = dst[tileRows:]
	}
}

// packColumns packs the block whose columns are rows of src. It takes eight of
// them at a time across all panels: they then stay in the first-level cache,
// where rows a power of two apart would evict each other.
func (w *workspace) packColumns(src []float32, ld, mb, kb int) {
	const group = 8
	for from := 0; from < kb; from += group {
		to := min(kb, from+group)
		for ii := 0; ii < mb; ii += tileRows {
			dst := w.a[ii*kb:][from*tileRows : to*tileRows]
			rows := min(tileRows, mb-ii)
			if rows < tileRows {
				clear(dst)
			}
			for p := from; p < to; p++ {
				s := src[p*ld+ii:][:rows]
				if rows == tileRows {
					*(*[tileRows]float32)(dst) = *(*[tileRows]float32)(s)
				} else {
					copy(dst, s)
				}
				dst = dst[tileRows:]
			}
		}
	}
}

// packB copies rows d..d+kb, columns j..j+nb of op(B) into panels of sixteen
// columns, row by row; columns past the end are zero.
func (w *workspace) packB(o *operands, d, kb, j, nb int) {
	w.b = grown(w.b, (nb+tileCols-1)/tileCols*tileCols*kb)
	for jj := 0; jj < nb; jj += tileCols {
		dst := w.b[jj*kb:][:tileCols*kb]
		cols := min(tileCols, nb-jj)
		if cols < tileCols {
			clear(dst)
		}
		if o.transB {
			for x := 0; x < cols; x += 8 {
				interleave(dst[x:], o.b[(j+jj+x)*o.ldb+d:], o.ldb, kb, min(8, cols-x))
			}
			continue
		}
		src := o.b[d*o.ldb+j+jj:]
		for p := range kb {
			if cols == tileCols {
				*(*[tileCols]float32)(dst[p*tileCols:]) = *(*[tileCols]float32)(src[p*o.ldb:])
			} else {
				copy(dst[p*tileCols:], src[p*o.ldb:][:cols])
			}
		}
	}
}

// interleave spreads up to eight rows of src over columns of a panel.
func interleave(dst, src []float32, ld, kb, rows int) {
	done := 0
	if rows == 8 && kb >= 8 {
		done = kb &^ 7
		transpose8AVX2(&dst[0], &src[0], ld, done)
	}
	for r := range rows {
		for p, v := range src[r*ld:][:kb][done:] {
			dst[(done+p)*tileCols+r] = v
		}
	}
}

// grown is s with length n; what it held is lost.
func grown(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// minWork is how many multiplications a goroutine must be worth.
const minWork = 1 << 19

// split cuts C into strips along its longer side, one for each thread; nil
// means that one thread is enough.
func (p *packed) split(o operands) []operands {
	parts := min(int(p.threads.Load()), max(1, int(float64(o.m)*float64(o.n)*float64(o.k)/minWork)))
	if parts == 1 {
		return nil
	}
	var out []operands
	if o.m >= o.n {
		step := strip(o.m, parts, tileRows)
		for i := 0; i < o.m; i += step {
			out = append(out, o.rows(i, min(step, o.m-i)))
		}
		return out
	}
	step := strip(o.n, parts, tileCols)
	for j := 0; j < o.n; j += step {
		out = append(out, o.columns(j, min(step, o.n-j)))
	}
	return out
}

// strip is the width of a part in whole tiles.
func strip(size, parts, tile int) int {
	tiles := (size + tile - 1) / tile
	return (tiles + parts - 1) / parts * tile
}

// rows is the part of the product that gives n rows of C from row i.
func (o operands) rows(i, n int) operands {
	if o.transA {
		o.a = o.a[i:]
	} else {
		o.a = o.a[i*o.lda:]
	}
	o.c, o.m = o.c[i*o.ldc:], n
	return o
}

// columns is the part of the product that gives n columns of C from column j.
func (o operands) columns(j, n int) operands {
	if o.transB {
		o.b = o.b[j*o.ldb:]
	} else {
		o.b = o.b[j:]
	}
	o.c, o.n = o.c[j:], n
	return o
}
