package simd

import (
	"fmt"
	"testing"
)

// Each function beside its Go twin; MB/s counts the bytes read and written.
func BenchmarkVector(b *testing.B) {
	for _, n := range []int{1 << 12, 1 << 22} {
		s := make([][]float32, 5)
		for i := range s {
			s[i] = make([]float32, n)
			for j := range s[i] {
				s[i][j] = float32(j%17)/8 - 1
			}
		}
		for _, c := range []struct {
			name    string
			streams int
			f, twin func()
		}{
			{"AddTo", 3, func() { AddTo(s[0], s[1]) }, func() { addToGo(s[0], s[1]) }},
			{"Axpy", 3, func() { Axpy(s[0], 1e-9, s[1]) }, func() { axpyGo(s[0], s[1], 1e-9) }},
			{"Scale", 2, func() { Scale(s[0], 1) }, func() { scaleToGo(s[0], s[0], 1) }},
			{"MaxTo", 3, func() { MaxTo(s[0], s[1]) }, func() { maxToGo(s[0], s[1]) }},
			{"Sum", 1, func() { Sum(s[1]) }, func() { sumGo(s[1]) }},
			{"Dot", 2, func() { Dot(s[1], s[2]) }, func() { dotGo(s[1], s[2]) }},
			{"SumSquares", 1, func() { SumSquares(s[1]) }, func() { sumSquaresGo(s[1]) }},
			{"HasNonFinite", 1, func() { HasNonFinite(s[1]) }, func() { hasNonFiniteGo(s[1]) }},
			{"ColSumTo64", 1, func() { ColSumTo(s[0][:64], s[1]) }, func() { columnSumGo(s[0][:64], s[1], n/64) }},
			{"AddBias64", 2, func() { AddBias(s[0], s[1][:64]) }, func() {
				for x := s[0]; len(x) > 0; x = x[64:] {
					addToGo(x[:64], s[1][:64])
				}
			}},
			{"ReLUBackward", 3, func() { ReLUBackward(s[0], s[1], s[2]) }, func() { reluBackwardGo(s[0], s[1], s[2]) }},
			{"Exp", 2, func() { Exp(s[0], s[1]) }, func() { expToGo(s[0], s[1]) }},
			{"GELU", 2, func() { GELU(s[0], s[1]) }, func() { geluGo(s[0], s[1]) }},
			{"GELUBackward", 3, func() { GELUBackward(s[0], s[1], s[2]) }, func() { geluBackwardGo(s[0], s[1], s[2]) }},
			{"GELUErf", 2, func() { GELUErf(s[0], s[1]) }, func() { geluErfGo(s[0], s[1]) }},
			{"GELUErfBackward", 3, func() { GELUErfBackward(s[0], s[1], s[2]) }, func() { geluErfBackwardGo(s[0], s[1], s[2]) }},
			{"SoftmaxRow", 2, func() { SoftmaxRow(s[0], s[1]) }, func() { expSumGo(s[0], s[1], maximumGo(s[1])) }},
			{"LayerNormRow", 4, func() { LayerNormRow(s[0], s[1], s[2], s[3], 1e-5) }, func() { normalizeGo(s[0], s[1], s[2], s[3], 0, 1) }},
			{"SGD", 5, func() { SGD(s[0], s[1], s[2], 1, SGDArgs{LR: 1e-9, Momentum: 0.9}) }, func() { sgdMomentumGo(s[0], s[1], s[2], 1, 1e-9, 0, 0.9, 1, 0, 1) }},
			{"AdamW", 7, func() {
				AdamW(s[0], s[1], s[2], s[4], 1, AdamArgs{LR: 1e-9, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Step: 1})
			}, func() {
				adamGo(s[0], s[1], s[2], s[4], 1, 0, 1, 0.9, 0.1, 0.99, 0.01, 1, 1e-8, 1e-9)
			}},
		} {
			Fill(s[4], 0)
			for _, v := range []struct {
				name string
				f    func()
			}{{"simd", c.f}, {"go", c.twin}} {
				b.Run(fmt.Sprintf("%s/%d/%s", c.name, n, v.name), func(b *testing.B) {
					b.SetBytes(int64(4 * n * c.streams))
					for b.Loop() {
						v.f()
					}
				})
			}
		}
	}
}

// The cost of a call on a short row.
func BenchmarkShort(b *testing.B) {
	x, y := make([]float32, 10), make([]float32, 10)
	for b.Loop() {
		AddTo(x, y)
	}
}
