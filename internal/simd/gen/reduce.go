package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func reductions() []kernel {
	return []kernel{
		{"sum", "x []float32", "float64", "adds x in float64.", func(a *asm) {
			acc := a.accumulators(4)
			a.each("x", 2, func(v vec) {
				lo, hi := v.doubles(v.load("x"))
				v.VADDPD(lo, acc[2*v.lane], acc[2*v.lane])
				v.VADDPD(hi, acc[2*v.lane+1], acc[2*v.lane+1])
			})
			a.Store(a.foldDouble(a.joinDouble(acc)), a.ReturnIndex(0))
		}},
		{"sumSquares", "x []float32", "float64", "adds the squares of x in float64.", func(a *asm) {
			acc := a.accumulators(4)
			a.each("x", 2, func(v vec) {
				lo, hi := v.doubles(v.load("x"))
				v.VFMADD231PD(lo, lo, acc[2*v.lane])
				v.VFMADD231PD(hi, hi, acc[2*v.lane+1])
			})
			a.Store(a.foldDouble(a.joinDouble(acc)), a.ReturnIndex(0))
		}},
		{"dot", "a, b []float32", "float32", "adds a * b in 32 float32 lanes.", func(a *asm) {
			acc := a.accumulators(4)
			a.each("a b", 4, func(v vec) {
				x, y := v.load("a"), v.load("b")
				v.VFMADD231PS(x, y, acc[v.lane])
			})
			a.Store(a.fold(a.join(acc), a.add), a.ReturnIndex(0))
		}},
		{"sumSquaredDeviations", "x []float32, mean float32", "float32", "adds (x-mean)² in 32 float32 lanes.", func(a *asm) {
			mean, acc := a.scalar("mean"), a.accumulators(4)
			a.each("x", 4, func(v vec) {
				x := v.load("x")
				v.VSUBPS(mean, x, x)
				v.clip(x)
				v.VFMADD231PS(x, x, acc[v.lane])
			})
			a.Store(a.fold(a.join(acc), a.add), a.ReturnIndex(0))
		}},
		{"maximum", "x []float32", "float32", "is the greatest element of x, -Inf when there is none; NaNs give an unspecified result.", func(a *asm) {
			inf := a.bits(0xff800000)
			var acc [4]reg.VecVirtual
			for i := range acc {
				acc[i] = a.YMM()
				a.VMOVUPS(inf, acc[i])
			}
			a.each("x", 4, func(v vec) {
				x := v.load("x")
				if v.mask != nil {
					low := v.YMM()
					v.VMOVUPS(inf, low)
					v.VBLENDVPS(v.mask, x, low, x)
				}
				v.VMAXPS(x, acc[v.lane], acc[v.lane])
			})
			a.VMAXPS(acc[1], acc[0], acc[0])
			a.VMAXPS(acc[3], acc[2], acc[2])
			a.VMAXPS(acc[2], acc[0], acc[0])
			a.Store(a.fold(acc[0], func(s, x, d operand.Op) { a.VMAXPS(s, x, d) }), a.ReturnIndex(0))
		}},
		{"hasNonFinite", "x []float32", "bool", "tells whether x has an infinity or a NaN.", func(a *asm) {
			acc := a.zero()
			magnitude, largest := a.YMM(), a.YMM()
			a.VMOVUPS(a.bits(0x7fffffff), magnitude)
			a.VMOVUPS(a.bits(0x7f7fffff), largest)
			a.each("x", 4, func(v vec) {
				x := v.load("x")
				v.VPAND(magnitude, x, x)
				v.VPCMPGTD(largest, x, x)
				v.VPOR(x, acc, acc)
			})
			m, r := a.GP32(), a.GP8()
			a.VMOVMSKPS(acc, m)
			a.TESTL(m, m)
			a.SETNE(r)
			a.Store(r, a.ReturnIndex(0))
		}},
		{"columnSum", "dst, x []float32, rows int", "", "adds rows rows of x, each as long as dst, to dst.", columnSum},
	}
}

func (a *asm) add(s, x, d operand.Op) { a.VADDPS(s, x, d) }

func (a *asm) accumulators(n int) []reg.VecVirtual {
	out := make([]reg.VecVirtual, n)
	for i := range out {
		out[i] = a.zero()
	}
	return out
}

func (a *asm) join(acc []reg.VecVirtual) reg.VecVirtual {
	a.VADDPS(acc[1], acc[0], acc[0])
	a.VADDPS(acc[3], acc[2], acc[2])
	a.VADDPS(acc[2], acc[0], acc[0])
	return acc[0]
}

func (a *asm) joinDouble(acc []reg.VecVirtual) reg.VecVirtual {
	a.VADDPD(acc[1], acc[0], acc[0])
	a.VADDPD(acc[3], acc[2], acc[2])
	a.VADDPD(acc[2], acc[0], acc[0])
	return acc[0]
}

// doubles widens eight float32 to two vectors of float64.
func (v vec) doubles(x reg.VecVirtual) (lo, hi reg.VecVirtual) {
	lo, hi = v.YMM(), v.YMM()
	half := v.XMM()
	v.VEXTRACTF128(operand.U8(1), x, half)
	v.VCVTPS2PD(x.AsX(), lo)
	v.VCVTPS2PD(half, hi)
	return lo, hi
}

// columnSum walks down a strip of 32 columns (8, then the rest) with the sums
// in registers.
func columnSum(a *asm) {
	dst, x, left := a.base("dst"), a.base("x"), a.length("dst")
	rows, stride := a.GP64(), a.GP64()
	a.Load(a.Param("rows"), rows)
	a.MOVQ(left, stride)
	a.SHLQ(operand.U8(2), stride)

	strip := func(vectors int, mask reg.VecVirtual) {
		v := vec{asm: a, mask: mask}
		acc := a.accumulators(vectors)
		p, r := a.GP64(), a.GP64()
		a.MOVQ(x, p)
		a.MOVQ(rows, r)
		down, end := a.label("down"), a.label("end")
		a.Label(down)
		a.TESTQ(r, r)
		a.JE(operand.LabelRef(end))
		for i, s := range acc {
			m := operand.Mem{Base: p, Disp: 32 * i}
			if mask != nil {
				t := a.YMM()
				a.VMASKMOVPS(m, mask, t)
				a.VADDPS(t, s, s)
				continue
			}
			a.VADDPS(m, s, s)
		}
		a.ADDQ(stride, p)
		a.DECQ(r)
		a.JMP(operand.LabelRef(down))
		a.Label(end)
		for i, s := range acc {
			m := operand.Mem{Base: dst, Disp: 32 * i}
			if mask != nil {
				t := a.YMM()
				a.VMASKMOVPS(m, mask, t)
				a.VADDPS(t, s, s)
				v.VMASKMOVPS(s, mask, m)
				continue
			}
			a.VADDPS(m, s, s)
			a.VMOVUPS(s, m)
		}
	}
	for _, vectors := range []int{4, 1} {
		again, rest := a.label("again"), a.label("rest")
		a.Label(again)
		a.CMPQ(left, operand.U32(uint32(8*vectors)))
		a.JL(operand.LabelRef(rest))
		strip(vectors, nil)
		a.ADDQ(operand.U32(uint32(32*vectors)), x)
		a.ADDQ(operand.U32(uint32(32*vectors)), dst)
		a.SUBQ(operand.U32(uint32(8*vectors)), left)
		a.JMP(operand.LabelRef(again))
		a.Label(rest)
	}
	done := a.label("done")
	a.TESTQ(left, left)
	a.JE(operand.LabelRef(done))
	strip(1, a.tailMask(left))
	a.Label(done)
}
