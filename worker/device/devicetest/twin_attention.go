package devicetest

import "math"

// attnShape is the shape of an attention.
type attnShape struct {
	batch, tokens, heads, size int
	causal                     bool
}

func (a attnShape) width() int { return a.heads * a.size }

// q, k and v are places in the packed operand.
func (a attnShape) q(b, h, t, i int) int {
	return (b*a.tokens+t)*3*a.width() + h*a.size + i
}
func (a attnShape) k(b, h, t, i int) int { return a.q(b, h, t, i) + a.width() }
func (a attnShape) v(b, h, t, i int) int { return a.q(b, h, t, i) + 2*a.width() }
func (a attnShape) out(b, h, t, i int) int {
	return (b*a.tokens+t)*a.width() + h*a.size + i
}

// probs is the softmax of query row t over the keys it sees.
func (a attnShape) probs(qkv []float64, b, h, t int) (p []float64, lse float64) {
	seen := a.tokens
	if a.causal {
		seen = t + 1
	}
	s := make([]float64, seen)
	for j := range s {
		for i := range a.size {
			s[j] += qkv[a.q(b, h, t, i)] * qkv[a.k(b, h, j, i)] / math.Sqrt(float64(a.size))
		}
	}
	return softmax(s)
}

// each visits all query rows.
func (a attnShape) each(visit func(b, h, t int)) {
	for b := range a.batch {
		for h := range a.heads {
			for t := range a.tokens {
				visit(b, h, t)
			}
		}
	}
}

func twinAttention(a attnShape, qkv []float64) (out, lse []float64) {
	out = make([]float64, a.batch*a.tokens*a.width())
	a.each(func(b, h, t int) {
		p, l := a.probs(qkv, b, h, t)
		lse = append(lse, l)
		for j, pj := range p {
			for i := range a.size {
				out[a.out(b, h, t, i)] += pj * qkv[a.v(b, h, j, i)]
			}
		}
	})
	return out, lse
}

func twinAttentionGrad(a attnShape, qkv, dout []float64) []float64 {
	d := make([]float64, len(qkv))
	scale := 1 / math.Sqrt(float64(a.size))
	a.each(func(b, h, t int) {
		p, _ := a.probs(qkv, b, h, t)
		dp, mean := make([]float64, len(p)), 0.0
		for j := range p {
			for i := range a.size {
				g := dout[a.out(b, h, t, i)]
				dp[j] += g * qkv[a.v(b, h, j, i)]
				d[a.v(b, h, j, i)] += p[j] * g
			}
			mean += p[j] * dp[j]
		}
		for j := range p {
			ds := p[j] * (dp[j] - mean) * scale
			for i := range a.size {
				d[a.q(b, h, t, i)] += ds * qkv[a.k(b, h, j, i)]
				d[a.k(b, h, j, i)] += ds * qkv[a.q(b, h, t, i)]
			}
		}
	})
	return d
}
