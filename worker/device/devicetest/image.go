package devicetest

import (
	"fmt"
	"math"
	"strconv"

	"github.com/ddprun/ddprun/worker/device"
)

func itoa(v int) string { return strconv.Itoa(v) }

var convs = []convShape{
	{batch: 1, in: 1, h: 1, w: 1, out: 1, kernel: 1, stride: 1},
	{batch: 2, in: 3, h: 8, w: 8, out: 4, kernel: 3, stride: 1, padding: 1},
	{batch: 2, in: 2, h: 7, w: 5, out: 3, kernel: 3, stride: 2, padding: 1},
	{batch: 3, in: 4, h: 6, w: 7, out: 5, kernel: 1, stride: 1},
	{batch: 1, in: 4, h: 6, w: 7, out: 5, kernel: 1, stride: 2},
	{batch: 2, in: 1, h: 9, w: 11, out: 2, kernel: 5, stride: 3, padding: 4},
	{batch: 1, in: 2, h: 4, w: 4, out: 2, kernel: 4, stride: 1},
	{batch: 1, in: 1, h: 1, w: 1, out: 2, kernel: 3, stride: 1, padding: 2}, // whole rows of padding
	{batch: 2, in: 8, h: 14, w: 14, out: 16, kernel: 3, stride: 1, padding: 1},
}

func (c convShape) conv(x, w, bias, out T) device.Conv2DArgs {
	return device.Conv2DArgs{Out: out, X: x, Weight: w, Bias: bias, Kernel: c.kernel, Stride: c.stride, Padding: c.padding}
}

func testConv2D(s *suite) {
	for _, c := range convs {
		name := fmt.Sprintf("%+v", c)
		x, xv := s.tensor("x", c.xShape()...)
		w, wv := s.tensor("w", c.wShape()...)
		bias, bv := s.tensor("bias", c.out)
		out := s.alloc("out", c.outShape()...)
		s.ok(s.dev.Conv2D(c.conv(x, w, nil, out)))
		s.near(name, out, twinConv(c, xv, wv, nil))
		s.ok(s.dev.Conv2D(c.conv(x, w, bias, out)))
		s.near(name+" with bias", out, twinConv(c, xv, wv, bv))
		s.drop()
	}
}

func testConv2DGrad(s *suite) {
	for _, c := range convs {
		name := fmt.Sprintf("%+v", c)
		x, xv := s.tensor("x", c.xShape()...)
		w, wv := s.tensor("w", c.wShape()...)
		dout, g := s.tensor("dout", c.outShape()...)
		dx, dw, db := twinConvGrad(c, xv, wv, g)
		a := device.Conv2DGradArgs{
			DX: s.alloc("dx", c.xShape()...), DWeight: s.alloc("dw", c.wShape()...), DBias: s.alloc("db", c.out),
			DOut: dout, X: x, Weight: w, Kernel: c.kernel, Stride: c.stride, Padding: c.padding,
		}
		s.ok(s.dev.Conv2DGrad(a))
		s.near(name+" dx", a.DX, dx)
		s.near(name+" dw", a.DWeight, dw)
		s.near(name+" db", a.DBias, db)
		a.Accumulate = true
		s.ok(s.dev.Conv2DGrad(a))
		s.near(name+" dx is overwritten", a.DX, dx)
		s.near(name+" dw twice", a.DWeight, twinAdd(dw, dw))
		s.near(name+" db twice", a.DBias, twinAdd(db, db))

		// Each gradient alone.
		one := a
		one.Accumulate, one.DX, one.DBias = false, nil, nil
		s.ok(s.dev.Conv2DGrad(one))
		s.near(name+" dw alone", one.DWeight, dw)
		one.DX, one.DWeight = s.alloc("dx", c.xShape()...), nil
		s.ok(s.dev.Conv2DGrad(one))
		s.near(name+" dx alone", one.DX, dx)
		one.DX, one.DBias = nil, s.alloc("db", c.out)
		s.ok(s.dev.Conv2DGrad(one))
		s.near(name+" db alone", one.DBias, db)
		s.drop()
	}
}

func testConv2DErrors(s *suite) {
	c := convShape{batch: 2, in: 3, h: 6, w: 6, out: 4, kernel: 3, stride: 1, padding: 1}
	good := c.conv(s.alloc("x", c.xShape()...), s.alloc("w", c.wShape()...), s.alloc("bias", 4), s.alloc("out", c.outShape()...))
	s.ok(s.dev.Conv2D(good))
	try := func(change func(*device.Conv2DArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.Conv2D(a), append(words, "conv2d")...)
	}
	try(func(a *device.Conv2DArgs) { a.X = s.alloc("odd", 2, 3, 36) }, "odd", "[2 3 36]")
	try(func(a *device.Conv2DArgs) { a.X = s.alloc("odd", 2, 2, 6, 6) }, "[4 3 3 3]")
	try(func(a *device.Conv2DArgs) { a.Padding = 0 }, "out", "[2 4 6 6]", "[2 4 4 4]")
	try(func(a *device.Conv2DArgs) { a.Kernel = 5 }, "w", "[4 3 3 3]", "[4 3 5 5]")
	try(func(a *device.Conv2DArgs) { a.Kernel = 9 })
	try(func(a *device.Conv2DArgs) { a.Stride = 0 }, "Stride")
	try(func(a *device.Conv2DArgs) { a.Padding = -1 }, "Padding")
	try(func(a *device.Conv2DArgs) { a.Bias = s.alloc("odd", 3) }, "odd", "[3]", "[4]")
	try(func(a *device.Conv2DArgs) { a.Weight = nil }, "Weight")
	try(func(a *device.Conv2DArgs) { a.X = s.foreign(c.xShape()...) }, "alien", "cuda:63")
	try(func(a *device.Conv2DArgs) { a.X = s.ints("whole", make([]int, 216), c.xShape()...) }, "whole", "int32")

	grad := device.Conv2DGradArgs{DX: s.alloc("odd", 2, 3, 6, 5), DOut: good.Out, X: good.X, Weight: good.Weight, Kernel: 3, Stride: 1, Padding: 1}
	s.refuses(s.dev.Conv2DGrad(grad), "conv2d", "odd", "[2 3 6 5]", "[2 3 6 6]")
	grad.DX, grad.DBias = nil, s.alloc("odd", 5)
	s.refuses(s.dev.Conv2DGrad(grad), "conv2d", "odd", "[5]", "[4]")
}

var norms = []normShape{{1, 1, 2}, {4, 3, 1}, {2, 5, 9}, {3, 2, 64}, {8, 4, 49}}

func testBatchNorm(s *suite) {
	const momentum = 0.3
	for _, n := range norms {
		name := fmt.Sprintf("%+v", n)
		x, xv := s.tensor("x", n.batch, n.channels, n.plane, 1)
		gamma, gv := s.tensor("gamma", n.channels)
		beta, bv := s.tensor("beta", n.channels)
		mean0, variance0 := s.random(n.channels), mapped(s.random(n.channels), func(v float64) float64 { return f32(v + 2) })
		want, mean, rstd := twinBatchNorm(n, xv, gv, bv, f32(eps))
		a := device.BatchNormArgs{
			Out: s.alloc("out", n.batch, n.channels, n.plane, 1), X: x, Gamma: gamma, Beta: beta, Eps: eps, Momentum: momentum,
			RunningMean: s.upload("mean", mean0, n.channels), RunningVar: s.upload("var", variance0, n.channels), Training: true,
			Mean: s.alloc("mean", n.channels), Rstd: s.alloc("rstd", n.channels),
		}
		s.ok(s.dev.BatchNorm(a))
		tol := loose(s.tol, rstd)
		s.nearWithin(name, a.Out, want, tol)
		s.near(name+" mean", a.Mean, mean)
		s.near(name+" rstd", a.Rstd, rstd)
		count := float64(n.batch * n.plane)
		for c := range n.channels {
			variance := (1/(rstd[c]*rstd[c]) - f32(eps)) * count / (count - 1)
			mean0[c] = (1-f32(momentum))*mean0[c] + f32(momentum)*mean[c]
			variance0[c] = (1-f32(momentum))*variance0[c] + f32(momentum)*variance
		}
		s.near(name+" running mean", a.RunningMean, mean0)
		s.near(name+" running variance", a.RunningVar, variance0)

		a.Training, a.Mean, a.Rstd = false, nil, nil
		for c := range n.channels {
			row := n.gather(xv, c)
			for i := range row {
				row[i] = (row[i]-mean0[c])/math.Sqrt(variance0[c]+f32(eps))*gv[c] + bv[c]
			}
			n.scatter(want, row, c)
		}
		s.ok(s.dev.BatchNorm(a))
		s.near(name+" by running statistics", a.Out, want)
		s.near(name+" running mean stays", a.RunningMean, mean0)
		s.near(name+" running variance stays", a.RunningVar, variance0)
	}
}

func testBatchNormGrad(s *suite) {
	for _, n := range norms {
		name := fmt.Sprintf("%+v", n)
		x, xv := s.tensor("x", n.batch, n.channels, n.plane, 1)
		dout, g := s.tensor("dout", n.batch, n.channels, n.plane, 1)
		gamma, gv := s.tensor("gamma", n.channels)
		_, mean, rstd := twinBatchNorm(n, xv, gv, gv, f32(eps))
		dx, dgamma, dbeta := twinBatchNormGrad(n, xv, g, gv, f32(eps))
		a := device.BatchNormGradArgs{
			DX: s.alloc("dx", n.batch, n.channels, n.plane, 1), DOut: dout, X: x, Gamma: gamma,
			Mean: s.upload("mean", mean, n.channels), Rstd: s.upload("rstd", rstd, n.channels),
			DGamma: s.alloc("dgamma", n.channels), DBeta: s.alloc("dbeta", n.channels),
		}
		s.ok(s.dev.BatchNormGrad(a))
		s.nearWithin(name+" dx", a.DX, dx, loose(s.tol, rstd))
		s.near(name+" dgamma", a.DGamma, dgamma)
		s.near(name+" dbeta", a.DBeta, dbeta)
		a.Accumulate = true
		s.ok(s.dev.BatchNormGrad(a))
		s.near(name+" dgamma twice", a.DGamma, twinAdd(dgamma, dgamma))
		s.near(name+" dbeta twice", a.DBeta, twinAdd(dbeta, dbeta))
	}
}

func testBatchNormErrors(s *suite) {
	w := s.alloc("w", 3)
	good := device.BatchNormArgs{
		Out: s.alloc("out", 2, 3, 4, 4), X: s.alloc("x", 2, 3, 4, 4), Gamma: w, Beta: w,
		RunningMean: s.alloc("mean", 3), RunningVar: s.alloc("var", 3), Training: true,
	}
	try := func(change func(*device.BatchNormArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.BatchNorm(a), append(words, "batchnorm")...)
	}
	try(func(a *device.BatchNormArgs) { a.Gamma = s.alloc("odd", 4) }, "odd", "[4]", "[3]")
	try(func(a *device.BatchNormArgs) { a.Out = s.alloc("odd", 2, 3, 4, 5) }, "odd", "[2 3 4 5]", "[2 3 4 4]")
	try(func(a *device.BatchNormArgs) { a.X = s.alloc("odd", 2, 48) }, "odd", "[2 48]")
	try(func(a *device.BatchNormArgs) { a.Training, a.RunningMean, a.RunningVar = false, nil, nil }, "RunningMean")
	try(func(a *device.BatchNormArgs) { a.X, a.Out = s.alloc("single", 1, 3, 1, 1), s.alloc("out", 1, 3, 1, 1) }, "single", "more than one value")
	try(func(a *device.BatchNormArgs) { a.X = s.foreign(2, 3, 4, 4) }, "alien", "cuda:63")
	grad := device.BatchNormGradArgs{
		DX: s.alloc("dx", 2, 3, 4, 4), DOut: s.alloc("odd", 2, 3, 16, 1), X: good.X, Gamma: w, Mean: w, Rstd: w,
		DGamma: s.alloc("dgamma", 3), DBeta: s.alloc("dbeta", 3),
	}
	s.refuses(s.dev.BatchNormGrad(grad), "batchnorm", "odd", "[2 3 16 1]", "[2 3 4 4]")
}

var pools = []convShape{
	{batch: 1, in: 1, h: 1, w: 1, out: 1, kernel: 1, stride: 1},
	{batch: 2, in: 3, h: 8, w: 8, out: 3, kernel: 2, stride: 2},
	{batch: 2, in: 2, h: 7, w: 9, out: 2, kernel: 3, stride: 2},
	{batch: 1, in: 2, h: 7, w: 7, out: 2, kernel: 3, stride: 1}, // windows overlap
	{batch: 1, in: 2, h: 7, w: 7, out: 2, kernel: 2, stride: 3}, // windows leave gaps
	{batch: 3, in: 5, h: 6, w: 6, out: 5, kernel: 6, stride: 6}, // global
}

func testPool(s *suite) {
	for _, c := range pools {
		name := fmt.Sprintf("%+v", c)
		x, xv := s.tensor("x", c.xShape()...)
		want, index := twinMaxPool(c, xv)
		a := device.PoolArgs{Out: s.alloc("out", c.outShape()...), X: x, Kernel: c.kernel, Stride: c.stride}
		s.ok(s.dev.Pool(a))
		s.near(name+" average", a.Out, twinAvgPool(c, xv))
		a.Max = true
		s.ok(s.dev.Pool(a))
		s.near(name+" max without index", a.Out, want)
		a.Index = s.ints("index", constantInts(c.outLen(), -5), c.outShape()...)
		s.ok(s.dev.Pool(a))
		s.near(name+" max", a.Out, want)
		s.equalInts(name+" index", a.Index, index)
	}
	// Of equal elements the first; a NaN wins.
	c := convShape{batch: 1, in: 1, h: 2, w: 4, out: 1, kernel: 2, stride: 2}
	a := device.PoolArgs{
		Out: s.alloc("out", 1, 1, 1, 2), Index: s.ints("index", []int{0, 0}, 1, 1, 1, 2), Kernel: 2, Stride: 2, Max: true,
		X: s.upload("x", []float64{3, 3, 1, math.NaN(), 3, 3, 2, 4}, c.xShape()...),
	}
	s.ok(s.dev.Pool(a))
	s.near("equal and NaN", a.Out, []float64{3, math.NaN()})
	s.equalInts("equal and NaN", a.Index, []int{0, 3})
	a = device.PoolArgs{
		Out: s.alloc("out", 1, 1, 1, 1), Index: s.ints("index", []int{0}, 1, 1, 1, 1), Kernel: 3, Stride: 1, Max: true,
		X: s.upload("x", []float64{3, 1, 2, math.NaN(), 5, 5, 0, 1, 2}, 1, 1, 3, 3),
	}
	s.ok(s.dev.Pool(a))
	s.near("NaN of 3 x 3", a.Out, []float64{math.NaN()})
	s.equalInts("NaN of 3 x 3", a.Index, []int{3})
	a.X = s.upload("x", []float64{-3, -1, -2, -4, -1, -1, -7, -1, -2}, 1, 1, 3, 3)
	s.ok(s.dev.Pool(a))
	s.near("below zero", a.Out, []float64{-1})
	s.equalInts("the first of equal elements", a.Index, []int{1})
	zeros := device.PoolArgs{
		Out: s.alloc("out", 1, 1, 1, 1), Index: s.ints("index", []int{9}, 1, 1, 1, 1), Kernel: 2, Stride: 2, Max: true,
		X: s.upload("x", []float64{math.Copysign(0, -1), 0, 0, 0}, 1, 1, 2, 2),
	}
	s.ok(s.dev.Pool(zeros))
	s.equalInts("zeros of both signs are equal", zeros.Index, []int{0})
}

func constantInts(n, v int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = v
	}
	return x
}

func testPoolGrad(s *suite) {
	for _, c := range pools {
		name := fmt.Sprintf("%+v", c)
		_, index := twinMaxPool(c, s.random(c.batch*c.in*c.h*c.w))
		dout, g := s.tensor("dout", c.outShape()...)
		a := device.PoolGradArgs{DX: s.alloc("dx", c.xShape()...), DOut: dout, Kernel: c.kernel, Stride: c.stride}
		s.ok(s.dev.PoolGrad(a))
		s.near(name+" average", a.DX, twinPoolGrad(c, g, nil))
		a.Max, a.Index = true, s.ints("index", index, c.outShape()...)
		s.ok(s.dev.PoolGrad(a))
		s.near(name+" max", a.DX, twinPoolGrad(c, g, index))
	}
}

func testPoolErrors(s *suite) {
	good := device.PoolArgs{Out: s.alloc("out", 1, 2, 3, 3), X: s.alloc("x", 1, 2, 6, 6), Kernel: 2, Stride: 2, Max: true}
	try := func(change func(*device.PoolArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.Pool(a), append(words, "pool")...)
	}
	try(func(a *device.PoolArgs) { a.Kernel = 7 }, "x", "[1 2 6 6]", "7")
	try(func(a *device.PoolArgs) { a.Stride = 1 }, "out", "[1 2 3 3]", "[1 2 5 5]")
	try(func(a *device.PoolArgs) { a.Stride = 0 }, "Stride")
	try(func(a *device.PoolArgs) { a.Index = s.alloc("floats", 1, 2, 3, 3) }, "floats", "float32", "int32")
	try(func(a *device.PoolArgs) { a.X = s.foreign(1, 2, 6, 6) }, "alien", "cuda:63")
	grad := device.PoolGradArgs{DX: good.X, DOut: good.Out, Kernel: 2, Stride: 2, Max: true}
	s.refuses(s.dev.PoolGrad(grad), "pool", "Index")
}
