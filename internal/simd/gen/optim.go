package main

func optimizers() []kernel {
	return []kernel{
		{"sgdPlain", "p, g []float32, gscale, lr, wd float32", "", "sets p -= lr * (gscale*g + wd*p).", func(a *asm) {
			gscale, lr, wd := a.scalar("gscale"), a.scalar("lr"), a.scalar("wd")
			a.each("p g", 2, func(v vec) {
				p, d := v.load("p"), v.load("g")
				v.VMULPS(gscale, d, d)
				v.VFMADD231PS(wd, p, d)
				v.VFNMADD231PS(lr, d, p)
				v.store(p, "p")
			})
		}},
		{"sgdMomentum", "p, g, m []float32, gscale, lr, wd, momentum, damp, useGrad, useMom float32", "", "with d = gscale*g + wd*p sets m = momentum*m + damp*d, then p -= lr * (useGrad*d + useMom*m).", func(a *asm) {
			gscale, lr, wd := a.scalar("gscale"), a.scalar("lr"), a.scalar("wd")
			momentum, damp := a.scalar("momentum"), a.scalar("damp")
			useGrad, useMom := a.scalar("useGrad"), a.scalar("useMom")
			a.each("p g m", 2, func(v vec) {
				p, d, m := v.load("p"), v.load("g"), v.load("m")
				v.VMULPS(gscale, d, d)
				v.VFMADD231PS(wd, p, d)
				v.VMULPS(momentum, m, m)
				v.VFMADD231PS(damp, d, m)
				v.store(m, "m")
				v.VMULPS(useGrad, d, d)
				v.VFMADD231PS(useMom, m, d)
				v.VFNMADD231PS(lr, d, p)
				v.store(p, "p")
			})
		}},
		{"adam", "p, g, m, v []float32, gscale, l2, decay, b1, nb1, b2, nb2, rootc2, eps, step float32", "", "with d = gscale*g + l2*p sets m = b1*m + nb1*d, v = b2*v + nb2*d², p = decay*p - step * m/(sqrt(v)*rootc2 + eps).", func(a *asm) {
			a.each("p g m v", 1, func(v vec) {
				p, d, m, s := v.load("p"), v.load("g"), v.load("m"), v.load("v")
				v.VMULPS(v.scalar("gscale"), d, d)
				v.VFMADD231PS(v.scalar("l2"), p, d)
				v.VMULPS(v.scalar("b1"), m, m)
				v.VFMADD231PS(v.scalar("nb1"), d, m)
				v.store(m, "m")
				v.VMULPS(d, d, d)
				v.VMULPS(v.scalar("b2"), s, s)
				v.VFMADD231PS(v.scalar("nb2"), d, s)
				v.store(s, "v")
				v.VSQRTPS(s, s)
				eps := v.scalar("eps")
				v.VFMADD132PS(v.scalar("rootc2"), eps, s) // s = s·rootc2 + eps
				v.VDIVPS(s, m, m)
				v.VMULPS(v.scalar("decay"), p, p)
				v.VFNMADD231PS(v.scalar("step"), m, p)
				v.store(p, "p")
			})
		}},
	}
}
