package simd

import "math"

func sumGo(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}

func sumSquaresGo(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s float64
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return float32(s)
}

func sumSquaredDeviationsGo(x []float32, mean float32) float32 {
	var s float64
	for _, v := range x {
		d := float64(v - mean)
		s += d * d
	}
	return float32(s)
}

func maximumGo(x []float32) float32 {
	m := negInf
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func hasNonFiniteGo(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return true
		}
	}
	return false
}

func columnSumGo(dst, x []float32, rows int) {
	for r := range rows {
		addToGo(dst, x[r*len(dst):])
	}
}
