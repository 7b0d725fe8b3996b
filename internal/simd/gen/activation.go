package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func activations() []kernel {
	return []kernel{
		{"expTo", "dst, x []float32", "", "sets dst = exp(x).", func(a *asm) {
			a.each("dst x", 1, func(v vec) {
				v.store(v.exp(v.load("x")), "dst")
			})
		}},
		{"expSum", "dst, x []float32, shift float32", "float32", "sets dst = exp(x - shift) and returns its sum.", func(a *asm) {
			shift, acc := a.scalar("shift"), a.zero()
			a.each("dst x", 1, func(v vec) {
				x := v.load("x")
				v.VSUBPS(shift, x, x)
				e := v.exp(x)
				v.store(e, "dst")
				v.clip(e)
				v.VADDPS(e, acc, acc)
			})
			a.Store(a.fold(acc, a.add), a.ReturnIndex(0))
		}},
		{"softmaxBackward", "dx, dy, y []float32, dot, scale float32", "", "sets dx = scale * y * (dy - dot).", func(a *asm) {
			dot, scale := a.scalar("dot"), a.scalar("scale")
			a.each("dx dy y", 2, func(v vec) {
				dy, y := v.load("dy"), v.load("y")
				v.VSUBPS(dot, dy, dy)
				v.VMULPS(scale, y, y)
				v.VMULPS(dy, y, y)
				v.store(y, "dx")
			})
		}},
		{"gelu", "dst, x []float32", "", "sets dst = gelu(x), tanh form.", func(a *asm) {
			a.each("dst x", 1, func(v vec) { v.store(v.gelu(v.load("x")), "dst") })
		}},
		{"addGELU", "pre, out, bias []float32", "", "sets pre += bias and out = gelu(pre), tanh form.", func(a *asm) {
			a.each("pre out bias", 1, func(v vec) { v.store(v.gelu(v.addBias()), "out") })
		}},
		{"geluBackward", "dx, dy, x []float32", "", "sets dx = dy * gelu'(x), tanh form.", func(a *asm) {
			a.each("dx dy x", 1, func(v vec) { v.chain(v.geluSlope(v.load("x"))) })
		}},
		{"geluErf", "dst, x []float32", "", "sets dst = gelu(x), erf form.", func(a *asm) {
			a.each("dst x", 1, func(v vec) { v.store(v.geluErf(v.load("x")), "dst") })
		}},
		{"addGELUErf", "pre, out, bias []float32", "", "sets pre += bias and out = gelu(pre), erf form.", func(a *asm) {
			a.each("pre out bias", 1, func(v vec) { v.store(v.geluErf(v.addBias()), "out") })
		}},
		{"geluErfBackward", "dx, dy, x []float32", "", "sets dx = dy * gelu'(x), erf form.", func(a *asm) {
			a.each("dx dy x", 1, func(v vec) {
				x := v.load("x")
				phi, density := v.normal(x)
				// gelu' = Φ(x) + x·exp(-x²/2)/√(2π)
				v.VMULPS(v.f(1/math.Sqrt(2*math.Pi)), density, density)
				v.VFMADD231PS(density, x, phi)
				v.chain(phi)
			})
		}},
	}
}

func (v vec) addBias() reg.VecVirtual {
	p, b := v.load("pre"), v.load("bias")
	v.VADDPS(b, p, p)
	v.store(p, "pre")
	return p
}

// chain sets dx = dy * slope.
func (v vec) chain(slope reg.VecVirtual) {
	dy := v.load("dy")
	v.VMULPS(dy, slope, slope)
	v.store(slope, "dx")
}

// exp overwrites x with exp(x), at most 2 ulp off: x = n·ln2 + r with |r| at
// most ln2/2, a polynomial in r (the coefficients are those of Cephes expf),
// and 2^n in two factors, because n goes from -151 to 128 where results are
// subnormal or overflow.
func (a *asm) exp(x reg.VecVirtual) reg.VecVirtual {
	a.clampNaN(x, -105, 89)
	n, nf := a.YMM(), a.YMM()
	a.VMULPS(a.f(math.Log2E), x, n)
	a.VCVTPS2DQ(n, n)
	a.VCVTDQ2PS(n, nf)
	a.VFNMADD231PS(a.f(0.693359375), nf, x)
	a.VFNMADD231PS(a.f(-2.12194440e-4), nf, x)

	p, square := a.constant(1.9875691500e-4), a.YMM()
	for _, c := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		a.VFMADD213PS(a.f(c), x, p)
	}
	a.VMULPS(x, x, square)
	a.VFMADD213PS(x, square, p)
	a.VADDPS(a.f(1), p, p)

	half := a.YMM()
	a.VPSRAD(operand.U8(1), n, half)
	a.VPSUBD(half, n, n)
	for _, e := range []reg.VecVirtual{half, n} {
		a.VPADDD(a.bits(127), e, e)
		a.VPSLLD(operand.U8(23), e, e)
		a.VMULPS(e, p, p)
	}
	return p
}

// The tanh form of gelu is x·σ(2u), u = √(2/π)·(x + 0.044715x³), because
// 1 + tanh(u) = 2σ(2u): one exponential, and no cancellation for x < 0.
const (
	geluCubic = 0.044715
	geluTwoU  = 2 * math.Sqrt2 / math.SqrtPi
)

// expTwoU is exp(-2u) and x², with x limited to ±limit.
func (a *asm) expTwoU(x reg.VecVirtual, limit float64) (e, square reg.VecVirtual) {
	a.clampNaN(x, -limit, limit)
	square = a.YMM()
	a.VMULPS(x, x, square)
	w := a.constant(-geluTwoU * geluCubic)
	a.VFMADD213PS(a.f(-geluTwoU), square, w)
	a.VMULPS(x, w, w)
	return a.exp(w), square
}

func (a *asm) gelu(x reg.VecVirtual) reg.VecVirtual {
	e, _ := a.expTwoU(a.copy(x), 20)
	a.VADDPS(a.f(1), e, e)
	a.VDIVPS(e, x, x)
	return x
}

// geluSlope is σ + x·σ·(1-σ)·2u'. With x limited to ±9.5 exp(-2u) stays below
// 1e34, so that 1-σ = exp(-2u)·σ has no overflow and no cancellation.
func (a *asm) geluSlope(x reg.VecVirtual) reg.VecVirtual {
	e, square := a.expTwoU(x, 9.5)
	s, d := a.YMM(), a.constant(3*geluTwoU*geluCubic)
	one := a.constant(1)
	a.VADDPS(one, e, s)
	a.VDIVPS(s, one, s)
	a.VFMADD213PS(a.f(geluTwoU), square, d)
	a.VMULPS(s, e, e)
	a.VMULPS(x, d, d)
	a.VMULPS(e, d, d)
	a.VFMADD213PS(s, s, d) // d = s·d + s
	return d
}

// upperTail has R(a) = exp(a²/2)·Φ(-a) = t·P(t), t = 1/(1 + 0.35a), for a in
// [0, 14.6]: a Chebyshev fit of degree 8, relative error 4e-8.
var upperTail = []float64{
	-0.029741005862, 0.146822713345, -0.261481964504, 0.165580954132, -0.0273625665114,
	0.107226057392, 0.1194226226, 0.139914541084, 0.139618630485,
}

// normal is Φ(x) and exp(-x²/2); x is kept. Φ keeps its relative accuracy in
// the lower tail.
func (a *asm) normal(x reg.VecVirtual) (phi, density reg.VecVirtual) {
	m := a.YMM()
	a.VANDPS(a.bits(0x7fffffff), x, m)
	limit := a.constant(14.6)
	a.VMINPS(m, limit, m)

	// h + low = a²/2 exactly; without low the error of h grows with a².
	half, h, low := a.YMM(), a.YMM(), a.YMM()
	a.VMULPS(a.f(0.5), m, half)
	a.VMULPS(half, m, h)
	a.VMOVAPS(h, low)
	a.VFMSUB231PS(half, m, low) // low = half·m - low
	a.VXORPS(a.bits(0x80000000), h, h)
	density = a.exp(h)
	a.VFNMADD231PS(density, low, density)

	t, p := a.constant(1), a.constant(upperTail[0])
	one := a.constant(1)
	a.VFMADD132PS(a.f(0.35), one, m) // m = 0.35·m + 1
	a.VDIVPS(m, t, t)
	for _, c := range upperTail[1:] {
		a.VFMADD213PS(a.f(c), t, p)
	}
	a.VMULPS(t, p, p)
	a.VMULPS(density, p, p)
	phi = one
	a.VSUBPS(p, one, phi)
	a.VBLENDVPS(x, p, phi, phi) // the sign of x chooses
	return phi, density
}

func (a *asm) geluErf(x reg.VecVirtual) reg.VecVirtual {
	phi, _ := a.normal(x)
	a.VMULPS(x, phi, phi)
	return phi
}
