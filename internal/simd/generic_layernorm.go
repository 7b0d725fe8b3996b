package simd

func normalizeGo(dst, x, gamma, beta []float32, mean, rstd float32) {
	x, gamma, beta = x[:len(dst)], gamma[:len(dst)], beta[:len(dst)]
	for i := range dst {
		dst[i] = (x[i]-mean)*rstd*gamma[i] + beta[i]
	}
}

func normParamsGo(dy, x, gamma, dgamma, dbeta []float32, mean, rstd float32) (s1, s2 float32) {
	n := len(dy)
	x, gamma, dgamma, dbeta = x[:n], gamma[:n], dgamma[:n], dbeta[:n]
	var t1, t2 float64
	for i, d := range dy {
		xhat := (x[i] - mean) * rstd
		dgamma[i] += d * xhat
		dbeta[i] += d
		g := d * gamma[i]
		t1 += float64(g)
		t2 += float64(g) * float64(xhat)
	}
	return float32(t1), float32(t2)
}

func normInputGo(dx, dy, x, gamma []float32, mean, rstd, m1, m2, keep float32) {
	n := len(dx)
	dy, x, gamma = dy[:n], x[:n], gamma[:n]
	for i := range dx {
		xhat := (x[i] - mean) * rstd
		d := rstd * (dy[i]*gamma[i] - m1 - xhat*m2)
		if keep != 0 {
			d += dx[i]
		}
		dx[i] = d
	}
}
