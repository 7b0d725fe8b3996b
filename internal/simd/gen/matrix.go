package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Size of the tile of C that the matrix kernel keeps in registers: 12 sums,
// two vectors of B and one element of A fill the 16 registers of AVX2.
const (
	tileRows = 6
	tileCols = 16
)

func matrix() []kernel {
	return []kernel{
		{"tile6x16", "k int, a, b, c *float32, ldc int, alpha float32", "", "adds to a 6x16 tile of c, whose rows are ldc elements apart, alpha times the product of k packed columns of a (6 elements each) and k packed rows of b (16 each).", tile},
		{"transpose8", "dst, src *float32, ld, k int", "", "copies k columns (a multiple of 8) of eight rows of src, ld elements apart, to k rows of dst, 16 elements apart.", transpose},
	}
}

func tile(a *asm) {
	k, pa, pb, pc, ldc := a.GP64(), a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.Load(a.Param("k"), k)
	a.Load(a.Param("a"), pa)
	a.Load(a.Param("b"), pb)
	a.Load(a.Param("c"), pc)
	a.Load(a.Param("ldc"), ldc)
	a.SHLQ(operand.U8(2), ldc)

	var acc [tileRows][2]reg.VecVirtual
	row := a.GP64()
	a.MOVQ(pc, row)
	for i := range acc {
		acc[i][0], acc[i][1] = a.zero(), a.zero()
		a.PREFETCHT0(operand.Mem{Base: row})
		if i < tileRows-1 {
			a.ADDQ(ldc, row)
		}
	}
	step := func(n int) {
		b0, b1 := a.YMM(), a.YMM()
		a.VMOVUPS(operand.Mem{Base: pb, Disp: 64 * n}, b0)
		a.VMOVUPS(operand.Mem{Base: pb, Disp: 64*n + 32}, b1)
		for i := range acc {
			x := a.YMM()
			a.VBROADCASTSS(operand.Mem{Base: pa, Disp: 4 * (tileRows*n + i)}, x)
			a.VFMADD231PS(b0, x, acc[i][0])
			a.VFMADD231PS(b1, x, acc[i][1])
		}
	}
	for _, unroll := range []int{4, 1} {
		again, rest := a.label("again"), a.label("rest")
		a.Label(again)
		a.CMPQ(k, operand.U32(uint32(unroll)))
		a.JL(operand.LabelRef(rest))
		for n := 0; n < unroll; n++ {
			step(n)
		}
		a.ADDQ(operand.U32(uint32(4*tileRows*unroll)), pa)
		a.ADDQ(operand.U32(uint32(4*tileCols*unroll)), pb)
		a.SUBQ(operand.U32(uint32(unroll)), k)
		a.JMP(operand.LabelRef(again))
		a.Label(rest)
	}
	alpha := a.scalar("alpha")
	for i := range acc {
		for j, y := range acc[i] {
			m := operand.Mem{Base: pc, Disp: 32 * j}
			a.VFMADD213PS(m, alpha, y) // y = alpha·y + c
			a.VMOVUPS(y, m)
		}
		if i < tileRows-1 {
			a.ADDQ(ldc, pc)
		}
	}
}

// transpose turns blocks of 8x8: rows are interleaved by words, then by pairs
// of words, then by halves.
func transpose(a *asm) {
	dst, src, ld, k := a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.Load(a.Param("dst"), dst)
	a.Load(a.Param("src"), src)
	a.Load(a.Param("ld"), ld)
	a.Load(a.Param("k"), k)
	a.SHLQ(operand.U8(2), ld)
	lower := a.GP64() // the fifth row
	a.LEAQ(operand.Mem{Base: src, Index: ld, Scale: 4}, lower)
	ld3 := a.GP64()
	a.LEAQ(operand.Mem{Base: ld, Index: ld, Scale: 2}, ld3)

	again, done := a.label("again"), a.label("done")
	a.Label(again)
	a.CMPQ(k, operand.U32(8))
	a.JL(operand.LabelRef(done))
	r := make([]reg.VecVirtual, 8)
	for i := range r {
		m := operand.Mem{Base: src}
		if i >= 4 {
			m.Base = lower
		}
		switch i % 4 {
		case 1:
			m.Index, m.Scale = ld, 1
		case 2:
			m.Index, m.Scale = ld, 2
		case 3:
			m.Index, m.Scale = ld3, 1
		}
		r[i] = a.YMM()
		a.VMOVUPS(m, r[i])
	}
	words := make([]reg.VecVirtual, 8)
	for i := 0; i < 8; i += 2 {
		words[i], words[i+1] = a.YMM(), a.YMM()
		a.VUNPCKLPS(r[i+1], r[i], words[i])
		a.VUNPCKHPS(r[i+1], r[i], words[i+1])
	}
	pairs := make([]reg.VecVirtual, 8)
	for i := 0; i < 8; i += 4 {
		for j := range 4 {
			pairs[i+j] = a.YMM()
			x, y := words[i+j/2], words[i+2+j/2]
			if j%2 == 0 {
				a.VUNPCKLPD(y, x, pairs[i+j])
			} else {
				a.VUNPCKHPD(y, x, pairs[i+j])
			}
		}
	}
	for j := range 4 {
		lo, hi := a.YMM(), a.YMM()
		a.VPERM2F128(operand.U8(0x20), pairs[4+j], pairs[j], lo)
		a.VPERM2F128(operand.U8(0x31), pairs[4+j], pairs[j], hi)
		a.VMOVUPS(lo, operand.Mem{Base: dst, Disp: 4 * tileCols * j})
		a.VMOVUPS(hi, operand.Mem{Base: dst, Disp: 4 * tileCols * (4 + j)})
	}
	a.ADDQ(operand.U32(32), src)
	a.ADDQ(operand.U32(32), lower)
	a.ADDQ(operand.U32(8*4*tileCols), dst)
	a.SUBQ(operand.U32(8), k)
	a.JMP(operand.LabelRef(again))
	a.Label(done)
}
