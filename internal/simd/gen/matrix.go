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
		{"tile6x16", "k int, a, b, c *float32, ldc int", "", "adds to a 6x16 tile of c, whose rows are ldc elements apart, the product of k packed columns of a (6 elements each) and k packed rows of b (16 each).", tile},
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
	for i := range acc {
		for j, y := range acc[i] {
			m := operand.Mem{Base: pc, Disp: 32 * j}
			a.VADDPS(m, y, y)
			a.VMOVUPS(y, m)
		}
		if i < tileRows-1 {
			a.ADDQ(ldc, pc)
		}
	}
}
