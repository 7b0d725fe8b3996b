package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS.
const (
	isUnordered = operand.U8(0x03)
	isGreater   = operand.U8(0x1e)
)

func elementwise() []kernel {
	return []kernel{
		{"addTo", "dst, src []float32", "", "sets dst += src.", func(a *asm) {
			a.each("dst src", 4, func(v vec) {
				d, s := v.load("dst"), v.load("src")
				v.VADDPS(s, d, d)
				v.store(d, "dst")
			})
		}},
		{"add", "dst, a, b []float32", "", "sets dst = a + b.", func(a *asm) {
			a.each("dst a b", 4, func(v vec) {
				x, y := v.load("a"), v.load("b")
				v.VADDPS(y, x, x)
				v.store(x, "dst")
			})
		}},
		{"mulTo", "dst, src []float32", "", "sets dst *= src.", func(a *asm) {
			a.each("dst src", 4, func(v vec) {
				d, s := v.load("dst"), v.load("src")
				v.VMULPS(s, d, d)
				v.store(d, "dst")
			})
		}},
		{"mul", "dst, a, b []float32", "", "sets dst = a * b.", func(a *asm) {
			a.each("dst a b", 4, func(v vec) {
				x, y := v.load("a"), v.load("b")
				v.VMULPS(y, x, x)
				v.store(x, "dst")
			})
		}},
		{"axpy", "dst, x []float32, alpha float32", "", "sets dst += alpha * x.", func(a *asm) {
			alpha := a.scalar("alpha")
			a.each("dst x", 4, func(v vec) {
				d, x := v.load("dst"), v.load("x")
				v.VFMADD231PS(x, alpha, d)
				v.store(d, "dst")
			})
		}},
		{"scaleTo", "dst, src []float32, alpha float32", "", "sets dst = alpha * src.", func(a *asm) {
			alpha := a.scalar("alpha")
			a.each("dst src", 4, func(v vec) {
				x := v.load("src")
				v.VMULPS(alpha, x, x)
				v.store(x, "dst")
			})
		}},
		{"fill", "dst []float32, value float32", "", "sets dst = value.", func(a *asm) {
			value := a.scalar("value")
			a.each("dst", 4, func(v vec) { v.store(value, "dst") })
		}},
		{"minTo", "dst, src []float32", "", "sets dst to the lesser of dst and src; a NaN wins.", func(a *asm) {
			a.each("dst src", 2, func(v vec) { v.extreme(v.VMINPS) })
		}},
		{"maxTo", "dst, src []float32", "", "sets dst to the greater of dst and src; a NaN wins.", func(a *asm) {
			a.each("dst src", 2, func(v vec) { v.extreme(v.VMAXPS) })
		}},
		{"reluTo", "dst, x []float32", "", "sets dst = x < 0 ? 0 : x.", func(a *asm) {
			zero := a.zero()
			a.each("dst x", 4, func(v vec) {
				x := v.load("x")
				v.VMAXPS(x, zero, x)
				v.store(x, "dst")
			})
		}},
		{"reluBackward", "dx, dy, y []float32", "", "sets dx = y > 0 ? dy : 0.", func(a *asm) {
			zero := a.zero()
			a.each("dx dy y", 4, func(v vec) {
				y, dy := v.load("y"), v.load("dy")
				v.VCMPPS(isGreater, zero, y, y)
				v.VANDPS(dy, y, y)
				v.store(y, "dx")
			})
		}},
		{"addReLU", "dst, bias []float32", "", "sets dst = relu(dst + bias).", func(a *asm) {
			zero := a.zero()
			a.each("dst bias", 4, func(v vec) {
				d, b := v.load("dst"), v.load("bias")
				v.VADDPS(b, d, d)
				v.VMAXPS(d, zero, d)
				v.store(d, "dst")
			})
		}},
	}
}

// extreme is min or max of dst and src. The instruction drops a NaN in its
// first source, so NaNs are put back.
func (v vec) extreme(op func(...operand.Op)) {
	d, s := v.load("dst"), v.load("src")
	nan, bad := v.YMM(), v.YMM()
	v.VADDPS(s, d, bad)
	v.VCMPPS(isUnordered, s, d, nan)
	// On equality, +0 and -0 included, the second source is the result: dst.
	op(d, s, d)
	v.VBLENDVPS(nan, bad, d, d)
	v.store(d, "dst")
}

// clampNaN limits x to [lo, hi] and lets a NaN through.
func (a *asm) clampNaN(x reg.VecVirtual, lo, hi float64) {
	t := a.constant(hi)
	a.VMINPS(x, t, x)
	a.VMOVUPS(a.f(lo), t)
	a.VMAXPS(x, t, x)
}
