package main

import "github.com/mmcloughlin/avo/operand"

const notEqual = operand.U8(0x04)

func layernorm() []kernel {
	return []kernel{
		{"normalize", "dst, x, gamma, beta []float32, mean, rstd float32", "", "sets dst = (x-mean)*rstd*gamma + beta.", func(a *asm) {
			mean, rstd := a.scalar("mean"), a.scalar("rstd")
			a.each("dst x gamma beta", 2, func(v vec) {
				x, g, b := v.load("x"), v.load("gamma"), v.load("beta")
				v.VSUBPS(mean, x, x)
				v.VMULPS(rstd, x, x)
				v.VFMADD213PS(b, g, x)
				v.store(x, "dst")
			})
		}},
		{"normParams", "dy, x, gamma, dgamma, dbeta []float32, mean, rstd float32", "(s1, s2 float32)", "with xhat = (x-mean)*rstd adds dy*xhat to dgamma and dy to dbeta, and returns the sums of dy*gamma and dy*gamma*xhat.", func(a *asm) {
			mean, rstd := a.scalar("mean"), a.scalar("rstd")
			acc := a.accumulators(4)
			a.each("dy x gamma dgamma dbeta", 2, func(v vec) {
				dy, x, g := v.load("dy"), v.load("x"), v.load("gamma")
				v.VSUBPS(mean, x, x)
				v.VMULPS(rstd, x, x)
				dg, db := v.load("dgamma"), v.load("dbeta")
				v.VFMADD231PS(dy, x, dg)
				v.VADDPS(dy, db, db)
				v.store(dg, "dgamma")
				v.store(db, "dbeta")
				v.VMULPS(dy, g, g)
				v.VADDPS(g, acc[v.lane], acc[v.lane])
				v.VFMADD231PS(g, x, acc[2+v.lane])
			})
			a.VADDPS(acc[1], acc[0], acc[0])
			a.VADDPS(acc[3], acc[2], acc[2])
			a.Store(a.fold(acc[0], a.add), a.Return("s1"))
			a.Store(a.fold(acc[2], a.add), a.Return("s2"))
		}},
		{"normInput", "dx, dy, x, gamma []float32, mean, rstd, m1, m2, keep float32", "", "sets dx = (keep != 0 ? dx : 0) + rstd*(dy*gamma - m1 - xhat*m2).", func(a *asm) {
			mean, rstd := a.scalar("mean"), a.scalar("rstd")
			m1, m2, keep := a.scalar("m1"), a.scalar("m2"), a.scalar("keep")
			a.VCMPPS(notEqual, a.zero(), keep, keep)
			a.each("dx dy x gamma", 2, func(v vec) {
				dy, x, g, dx := v.load("dy"), v.load("x"), v.load("gamma"), v.load("dx")
				v.VSUBPS(mean, x, x)
				v.VMULPS(rstd, x, x)
				v.VFMSUB213PS(m1, dy, g) // g = dy·gamma - m1
				v.VFNMADD231PS(m2, x, g)
				v.VANDPS(keep, dx, dx)
				v.VFMADD231PS(rstd, g, dx)
				v.store(dx, "dx")
			})
		}},
	}
}
