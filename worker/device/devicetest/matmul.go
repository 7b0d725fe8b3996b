package devicetest

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

var acts = []device.Activation{device.Identity, device.ReLU, device.GELU, device.GELUTanh}

func testMatMul(s *suite) {
	sizes := [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 1, 9}, {1, 33, 2}, {64, 48, 32}, {33, 65, 130}, {5, 7, 0}, {0, 3, 2}, {129, 31, 1}}
	for _, size := range sizes {
		for _, ta := range []bool{false, true} {
			for _, tb := range []bool{false, true} {
				p := s.product(size[0], size[1], size[2], ta, tb)
				p.plain()
				for _, act := range acts {
					p.activated(act)
					p.gradient(act)
				}
				s.drop()
			}
		}
	}
}

// product is a matrix product under test.
type product struct {
	*suite
	m, n, k    int
	args       device.MatMulArgs
	want       []float64 // A*B
	bias       T
	biasValues []float64
}

func (s *suite) product(m, n, k int, ta, tb bool) *product {
	as, bs := []int{m, k}, []int{k, n}
	if ta {
		as = []int{k, m}
	}
	if tb {
		bs = []int{n, k}
	}
	a, av := s.tensor("a", as...)
	b, bv := s.tensor("b", bs...)
	p := &product{suite: s, m: m, n: n, k: k, want: twinMatMul(av, bv, ta, tb, m, n, k)}
	p.args = device.MatMulArgs{A: a, B: b, TransA: ta, TransB: tb}
	p.bias, p.biasValues = s.tensor("bias", n)
	return p
}

func (p *product) name(what string) string {
	return fmt.Sprintf("[%d %d %d] transposed %v %v, %s", p.m, p.n, p.k, p.args.TransA, p.args.TransB, what)
}

// biased is the product plus the bias.
func (p *product) biased() []float64 {
	out := make([]float64, len(p.want))
	for i, v := range p.want {
		out[i] = v + p.biasValues[i%p.n]
	}
	return out
}

func (p *product) plain() {
	a := p.args
	a.Out = p.alloc("out", p.m, p.n)
	p.ok(p.dev.MatMul(a))
	p.near(p.name("plain"), a.Out, p.want)

	a.Bias = p.bias
	p.ok(p.dev.MatMul(a))
	p.near(p.name("bias"), a.Out, p.biased())

	out, before := p.tensor("out", p.m, p.n)
	a.Out, a.Beta = out, 1
	p.ok(p.dev.MatMul(a))
	p.near(p.name("bias and beta 1"), a.Out, twinAdd(p.biased(), before))

	out, before = p.tensor("out", p.m, p.n)
	a.Out, a.Bias = out, nil
	p.ok(p.dev.MatMul(a))
	p.near(p.name("beta 1"), a.Out, twinAdd(p.want, before))

	// Overwriting must not multiply what was there by 0.
	a.Out, a.Beta = p.upload("out", constant(p.m*p.n, math.NaN()), p.m, p.n), 0
	p.ok(p.dev.MatMul(a))
	p.near(p.name("over NaN"), a.Out, p.want)
}

func (p *product) activated(act device.Activation) {
	for _, biased := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			a, pre := p.args, p.want
			a.Act, a.Out = act, p.alloc("out", p.m, p.n)
			if biased {
				a.Bias, pre = p.bias, p.biased()
			}
			if kept {
				a.Pre = p.alloc("pre", p.m, p.n)
			}
			p.ok(p.dev.MatMul(a))
			p.near(p.name(act.String()), a.Out, mapped(pre, func(x float64) float64 { return twinAct(act, x) }))
			if kept {
				p.near(p.name(act.String()+" pre"), a.Pre, pre)
			}
		}
	}
}

func (p *product) gradient(act device.Activation) {
	a := p.args
	a.GradOf, a.Out = act, p.alloc("out", p.m, p.n)
	at, values := p.tensor("at", p.m, p.n)
	a.GradAt = at
	p.ok(p.dev.MatMul(a))
	want := make([]float64, len(p.want))
	for i, v := range p.want {
		want[i] = v * twinActGrad(act, values[i])
	}
	p.near(p.name("gradient of "+act.String()), a.Out, want)
}

func mapped(x []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

// testMatMulFolds multiplies tensors of more than two dimensions, and views
// into larger ones.
func testMatMulFolds(s *suite) {
	a, av := s.tensor("a", 2, 3, 4)
	b, bv := s.tensor("b", 4, 5)
	out := s.alloc("out", 2, 3, 5)
	s.ok(s.dev.MatMul(device.MatMulArgs{Out: out, A: a, B: b}))
	s.near("folded", out, twinMatMul(av, bv, false, false, 6, 5, 4))

	grad := s.alloc("grad", 4, 5) // of the weights: a' * out
	g, gv := s.tensor("g", 2, 3, 5)
	s.ok(s.dev.MatMul(device.MatMulArgs{Out: grad, A: a, B: g, TransA: true}))
	s.near("folded, transposed", grad, twinMatMul(av, gv, true, false, 4, 5, 6))

	bucket := s.alloc("bucket", 3+20+3)
	view, err := bucket.Slice(3, 4, 5)
	s.ok(err)
	s.live = append(s.live, view)
	s.ok(s.dev.MatMul(device.MatMulArgs{Out: view, A: a, B: g, TransA: true}))
	s.near("view", view, twinMatMul(av, gv, true, false, 4, 5, 6))
	edges := s.floats(bucket)
	for _, i := range []int{0, 1, 2, 23, 24, 25} {
		if edges[i] != 77 {
			s.Errorf("element %d beside the view was overwritten with %g", i, edges[i])
		}
	}
}

func testMatMulErrors(s *suite) {
	out, a, b := s.alloc("out", 2, 5), s.alloc("left", 2, 3), s.alloc("right", 3, 5)
	good := device.MatMulArgs{Out: out, A: a, B: b}
	s.ok(s.dev.MatMul(good))
	try := func(change func(*device.MatMulArgs), words ...string) {
		s.Helper()
		x := good
		change(&x)
		s.refuses(s.dev.MatMul(x), append(words, "matmul")...)
	}
	try(func(x *device.MatMulArgs) { x.A = s.alloc("odd", 2, 4) }, "[3 5]")
	try(func(x *device.MatMulArgs) { x.A = s.alloc("odd", 3, 3) }, "odd", "[3 3]", "[2 3]")
	try(func(x *device.MatMulArgs) { x.B = s.alloc("odd", 5, 3) }, "odd", "[5 3]", "[3 5]")
	try(func(x *device.MatMulArgs) { x.TransB = true }, "right", "[3 5]", "[5 3]")
	try(func(x *device.MatMulArgs) { x.TransA = true }, "left")
	try(func(x *device.MatMulArgs) { x.Bias = s.alloc("odd", 4) }, "odd", "[4]", "[5]")
	try(func(x *device.MatMulArgs) { x.Pre = s.alloc("odd", 2, 4) }, "odd", "[2 4]", "[2 5]")
	try(func(x *device.MatMulArgs) { x.A = nil }, "A")
	try(func(x *device.MatMulArgs) { x.Out = nil }, "Out")
	try(func(x *device.MatMulArgs) { x.A = s.ints("whole", make([]int, 6), 2, 3) }, "whole", "int32", "float32")
	try(func(x *device.MatMulArgs) { x.B = s.foreign(3, 5) }, "alien", "cuda:63")
	try(func(x *device.MatMulArgs) { x.Bias = s.foreign(5) }, "alien", "cuda:63")
	try(func(x *device.MatMulArgs) { x.GradOf = device.GELU }, "GradAt")
	try(func(x *device.MatMulArgs) { x.GradOf, x.GradAt = device.GELU, s.alloc("odd", 1, 5) }, "odd", "[1 5]", "[2 5]")
	try(func(x *device.MatMulArgs) { x.Act, x.Beta = device.ReLU, 1 }, "Beta")
	try(func(x *device.MatMulArgs) { x.Act = 200 }, "activation")
}
