package devicetest

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
)

func attnShapes() []attnShape {
	var all []attnShape
	for _, causal := range []bool{false, true} {
		for _, a := range []attnShape{
			{batch: 1, tokens: 1, heads: 1, size: 1},
			{batch: 2, tokens: 5, heads: 3, size: 7},
			{batch: 1, tokens: 64, heads: 2, size: 16},
			{batch: 1, tokens: 150, heads: 1, size: 32},
			{batch: 3, tokens: 33, heads: 2, size: 1},
		} {
			a.causal = causal
			all = append(all, a)
		}
	}
	return all
}

func testAttention(s *suite) {
	for _, a := range attnShapes() {
		name := fmt.Sprintf("%+v", a)
		rows := a.batch * a.tokens
		qkv, v := s.tensor("qkv", rows, 3*a.width())
		want, lse := twinAttention(a, v)
		args := device.AttentionArgs{Out: s.alloc("out", rows, a.width()), QKV: qkv, Batch: a.batch, Tokens: a.tokens, Heads: a.heads, Causal: a.causal}
		s.ok(s.dev.Attention(args))
		s.near(name+" without lse", args.Out, want)
		args.Out, args.LSE = s.alloc("out", a.batch, a.tokens, a.width()), s.alloc("lse", a.batch, a.heads, a.tokens)
		s.ok(s.dev.Attention(args))
		s.near(name, args.Out, want)
		s.near(name+" lse", args.LSE, lse)
		s.drop()
	}
	s.largeScores()
}

// largeScores attends with scores whose exponentials overflow a float32.
func (s *suite) largeScores() {
	a := attnShape{batch: 1, tokens: 9, heads: 2, size: 4, causal: true}
	v := s.random(9 * 24)
	for i := range v {
		v[i] = f32(30 * v[i])
	}
	want, lse := twinAttention(a, v)
	args := device.AttentionArgs{
		Out: s.alloc("out", 9, 8), QKV: s.upload("qkv", v, 9, 24), LSE: s.alloc("lse", 1, 2, 9),
		Batch: 1, Tokens: 9, Heads: 2, Causal: true,
	}
	s.ok(s.dev.Attention(args))
	// A score of hundreds has an ulp of 3e-5, which is the error of its exponential.
	s.nearWithin("large scores", args.Out, want, Tolerance{Abs: s.tol.Abs, Rel: 30 * s.tol.Rel})
	s.near("large scores lse", args.LSE, lse)
}

func testAttentionGrad(s *suite) {
	for _, a := range attnShapes() {
		rows := a.batch * a.tokens
		qkv, v := s.tensor("qkv", rows, 3*a.width())
		dout, g := s.tensor("dout", rows, a.width())
		out, lse := twinAttention(a, v)
		args := device.AttentionGradArgs{
			DQKV: s.alloc("dqkv", rows, 3*a.width()), DOut: dout, QKV: qkv,
			Out: s.upload("out", out, rows, a.width()), LSE: s.upload("lse", lse, a.batch, a.heads, a.tokens),
			Batch: a.batch, Tokens: a.tokens, Heads: a.heads, Causal: a.causal,
		}
		want := twinAttentionGrad(a, v, g)
		for range 2 { // the second call must overwrite too
			s.ok(s.dev.AttentionGrad(args))
			s.near(fmt.Sprintf("%+v", a), args.DQKV, want)
		}
		s.drop()
	}
}

func testAttentionErrors(s *suite) {
	good := device.AttentionArgs{Out: s.alloc("out", 6, 8), QKV: s.alloc("qkv", 6, 24), Batch: 2, Tokens: 3, Heads: 2}
	try := func(change func(*device.AttentionArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.Attention(a), append(words, "attention")...)
	}
	try(func(a *device.AttentionArgs) { a.Heads = 3 }, "qkv", "[6 24]")
	try(func(a *device.AttentionArgs) { a.Heads = 0 }, "Heads")
	try(func(a *device.AttentionArgs) { a.Tokens = 4 }, "qkv", "[6 24]")
	try(func(a *device.AttentionArgs) { a.Tokens = -3 }, "Tokens")
	try(func(a *device.AttentionArgs) { a.Out = s.alloc("odd", 6, 24) }, "odd", "[6 24]", "[6 8]")
	try(func(a *device.AttentionArgs) { a.LSE = s.alloc("odd", 11) }, "odd", "[11]", "[12]")
	try(func(a *device.AttentionArgs) { a.QKV = s.foreign(6, 24) }, "alien", "cuda:63")
	try(func(a *device.AttentionArgs) { a.QKV = nil }, "QKV")
	try(func(a *device.AttentionArgs) { a.QKV = s.ints("whole", make([]int, 144), 6, 24) }, "whole", "int32")

	grad := device.AttentionGradArgs{
		DQKV: s.alloc("dqkv", 6, 24), DOut: s.alloc("dout", 6, 8), QKV: s.alloc("qkv", 6, 24),
		Out: s.alloc("out", 6, 8), Batch: 2, Tokens: 3, Heads: 2,
	}
	s.refuses(s.dev.AttentionGrad(grad), "LSE")
	grad.LSE = s.alloc("lse", 2, 2, 3)
	s.ok(s.dev.AttentionGrad(grad))
	grad.DQKV = s.alloc("odd", 24, 6)
	s.refuses(s.dev.AttentionGrad(grad), "odd", "[24 6]", "[6 24]")
}
