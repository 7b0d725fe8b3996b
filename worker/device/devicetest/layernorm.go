package devicetest

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

var normSizes = [][2]int{{1, 1}, {3, 5}, {1, 64}, {7, 33}, {16, 128}, {2, 1000}}

const eps = 1e-5

func testLayerNorm(s *suite) {
	for _, size := range normSizes {
		rows, n := size[0], size[1]
		name := fmt.Sprintf("[%d %d]", rows, n)
		x, xv := s.tensor("x", rows, n)
		res, rv := s.tensor("residual", rows, n)
		gamma, gv := s.tensor("gamma", n)
		beta, bv := s.tensor("beta", n)
		a := device.LayerNormArgs{Out: s.alloc("out", rows, n), X: x, Gamma: gamma, Beta: beta, Eps: eps}
		want, mean, rstd := twinLayerNorm(xv, gv, bv, f32(eps))
		s.ok(s.dev.LayerNorm(a))
		s.near(name, a.Out, want)

		a.Mean, a.Rstd = s.alloc("mean", rows), s.alloc("rstd", rows)
		s.ok(s.dev.LayerNorm(a))
		s.near(name+" out", a.Out, want)
		s.near(name+" mean", a.Mean, mean)
		s.near(name+" rstd", a.Rstd, rstd)

		sum := mapped(twinAdd(xv, rv), f32)
		want, _, _ = twinLayerNorm(sum, gv, bv, f32(eps))
		a.Residual, a.Sum = res, s.alloc("sum", rows, n)
		s.ok(s.dev.LayerNorm(a))
		s.near(name+" sum", a.Sum, sum)
		s.nearWithin(name+" with residual", a.Out, want, loose(s.tol, rstd))
		a.Sum = x
		s.ok(s.dev.LayerNorm(a))
		s.near(name+" sum in x", a.Sum, sum)
		s.nearWithin(name+" with residual in x", a.Out, want, loose(s.tol, rstd))
	}
	s.offCentre()
}

// loose widens a tolerance for rows that are nearly constant: rounding of the
// mean is multiplied by rstd.
func loose(tol Tolerance, rstd []float64) Tolerance {
	var most float64
	for _, r := range rstd {
		most = math.Max(most, r)
	}
	tol.Abs *= 1 + most/4
	return tol
}

// offCentre normalises rows whose mean is large beside their spread, where
// E[x²]-E[x]² loses all digits.
func (s *suite) offCentre() {
	v := s.random(3 * 96)
	for i := range v {
		v[i] = f32(1000 + v[i])
	}
	a := device.LayerNormArgs{
		Out: s.alloc("out", 3, 96), X: s.upload("x", v, 3, 96), Eps: eps,
		Gamma: s.upload("gamma", constant(96, 1), 96), Beta: s.upload("beta", constant(96, 0), 96),
	}
	want, _, _ := twinLayerNorm(v, constant(96, 1), constant(96, 0), f32(eps))
	s.ok(s.dev.LayerNorm(a))
	s.nearWithin("mean 1000", a.Out, want, Tolerance{Abs: 1e-3 + s.tol.Abs, Rel: s.tol.Rel})
}

func testLayerNormGrad(s *suite) {
	for _, size := range normSizes {
		rows, n := size[0], size[1]
		name := fmt.Sprintf("[%d %d]", rows, n)
		x, xv := s.tensor("x", rows, n)
		dout, gv := s.tensor("dout", rows, n)
		dsum, sv := s.tensor("dsum", rows, n)
		gamma, wv := s.tensor("gamma", n)
		_, mean, rstd := twinLayerNorm(xv, wv, wv, f32(eps))
		dx, dgamma, dbeta := twinLayerNormGrad(xv, gv, wv, f32(eps))
		// With a row of one element the gradient is 0 times a large rstd.
		tol := loose(s.tol, rstd)
		a := device.LayerNormGradArgs{
			DX: s.alloc("dx", rows, n), DOut: dout, X: x, Gamma: gamma,
			Mean: s.upload("mean", mean, rows), Rstd: s.upload("rstd", rstd, rows),
			DGamma: s.alloc("dgamma", n), DBeta: s.alloc("dbeta", n),
		}
		s.ok(s.dev.LayerNormGrad(a))
		s.nearWithin(name+" dx", a.DX, dx, tol)
		s.near(name+" dgamma", a.DGamma, dgamma)
		s.near(name+" dbeta", a.DBeta, dbeta)

		a.DSum, a.Accumulate = dsum, true
		s.ok(s.dev.LayerNormGrad(a))
		s.nearWithin(name+" dx with dsum", a.DX, twinAdd(dx, sv), tol)
		s.near(name+" dgamma twice", a.DGamma, twinAdd(dgamma, dgamma))
		s.near(name+" dbeta twice", a.DBeta, twinAdd(dbeta, dbeta))

		// The residual stream's gradient may be updated where it is.
		a.DX, a.Accumulate = dsum, false
		s.ok(s.dev.LayerNormGrad(a))
		s.nearWithin(name+" dx in dsum", a.DX, twinAdd(dx, sv), tol)
		s.near(name+" dgamma", a.DGamma, dgamma)
	}
}

func testLayerNormErrors(s *suite) {
	x, w, rows := s.alloc("x", 3, 4), s.alloc("w", 4), s.alloc("rows", 3)
	good := device.LayerNormArgs{Out: s.alloc("out", 3, 4), X: x, Gamma: w, Beta: w}
	try := func(change func(*device.LayerNormArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.LayerNorm(a), append(words, "layernorm")...)
	}
	try(func(a *device.LayerNormArgs) { a.Gamma = s.alloc("odd", 3) }, "odd", "[3]", "[4]")
	try(func(a *device.LayerNormArgs) { a.Out = s.alloc("odd", 4, 3) }, "odd", "[4 3]", "[3 4]")
	try(func(a *device.LayerNormArgs) { a.Residual = x }, "Sum")
	try(func(a *device.LayerNormArgs) { a.Mean, a.Rstd = rows, s.alloc("odd", 4) }, "odd", "[4]", "[3]")
	try(func(a *device.LayerNormArgs) { a.X = s.foreign(3, 4) }, "alien", "cuda:63")
	try(func(a *device.LayerNormArgs) { a.Beta = nil }, "Beta")
	try(func(a *device.LayerNormArgs) { a.X = s.ints("whole", make([]int, 12), 3, 4) }, "whole", "int32")

	grad := device.LayerNormGradArgs{
		DX: s.alloc("dx", 3, 4), DOut: x, X: x, Gamma: w, Mean: rows, Rstd: rows,
		DGamma: s.alloc("dgamma", 4), DBeta: s.alloc("dbeta", 4),
	}
	tryGrad := func(change func(*device.LayerNormGradArgs), words ...string) {
		s.Helper()
		a := grad
		change(&a)
		s.refuses(s.dev.LayerNormGrad(a), append(words, "layernorm")...)
	}
	tryGrad(func(a *device.LayerNormGradArgs) { a.DSum = s.alloc("odd", 3, 5) }, "odd", "[3 5]", "[3 4]")
	tryGrad(func(a *device.LayerNormGradArgs) { a.Rstd = w }, "w", "[4]", "[3]")
	tryGrad(func(a *device.LayerNormGradArgs) { a.DGamma = s.foreign(4) }, "alien", "cuda:63")
	tryGrad(func(a *device.LayerNormGradArgs) { a.DOut = nil }, "DOut")
}
