package simd

import "math"

func sgdPlainGo(p, g []float32, gscale, lr, wd float32) {
	g = g[:len(p)]
	for i, w := range p {
		p[i] = w - lr*(gscale*g[i]+wd*w)
	}
}

func sgdMomentumGo(p, g, m []float32, gscale, lr, wd, momentum, damp, useGrad, useMom float32) {
	g, m = g[:len(p)], m[:len(p)]
	for i, w := range p {
		d := gscale*g[i] + wd*w
		m[i] = momentum*m[i] + damp*d
		p[i] = w - lr*(useGrad*d+useMom*m[i])
	}
}

func adamGo(p, g, m, v []float32, gscale, l2, decay, b1, nb1, b2, nb2, rootc2, eps, step float32) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i, w := range p {
		d := gscale*g[i] + l2*w
		m[i] = b1*m[i] + nb1*d
		v[i] = b2*v[i] + nb2*(d*d)
		root := float32(math.Sqrt(float64(v[i])))
		p[i] = decay*w - step*(m[i]/(root*rootc2+eps))
	}
}
