package devicetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddprun/ddprun/worker/device"
)

// slopes holds grad, the gradient of the sum of weight*f(x) that a twin
// gives, against central differences of f.
func slopes(t *testing.T, what string, x, weight, grad []float64, f func() []float64) {
	t.Helper()
	loss := func() (l float64) {
		for i, v := range f() {
			l += v * weight[i]
		}
		return l
	}
	const h = 1e-5
	for i, keep := range x {
		x[i] = keep + h
		up := loss()
		x[i] = keep - h
		down := loss()
		x[i] = keep
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("%s: gradient %d is %g, the slope %g", what, i, grad[i], want)
		}
	}
}

func TestActivationTwins(t *testing.T) {
	for _, act := range []device.Activation{device.Identity, device.ReLU, device.GELU, device.GELUTanh} {
		x := []float64{-3, -1, -0.2, 0.1, 0.7, 2.5}
		grad := make([]float64, len(x))
		for i, v := range x {
			grad[i] = twinActGrad(act, v)
		}
		slopes(t, act.String(), x, constant(len(x), 1), grad, func() []float64 {
			out := make([]float64, len(x))
			for i, v := range x {
				out[i] = twinAct(act, v)
			}
			return out
		})
	}
}

func TestLayerNormTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x, gamma, beta, dout := random(rng, 15), random(rng, 5), random(rng, 5), random(rng, 15)
	forward := func() []float64 { out, _, _ := twinLayerNorm(x, gamma, beta, 1e-3); return out }
	dx, dgamma, dbeta := twinLayerNormGrad(x, dout, gamma, 1e-3)
	slopes(t, "x", x, dout, dx, forward)
	slopes(t, "gamma", gamma, dout, dgamma, forward)
	slopes(t, "beta", beta, dout, dbeta, forward)
}

func TestBatchNormTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	n := normShape{batch: 3, channels: 2, plane: 4}
	x, gamma, beta, dout := random(rng, 24), random(rng, 2), random(rng, 2), random(rng, 24)
	forward := func() []float64 { out, _, _ := twinBatchNorm(n, x, gamma, beta, 1e-3); return out }
	dx, dgamma, dbeta := twinBatchNormGrad(n, x, dout, gamma, 1e-3)
	slopes(t, "x", x, dout, dx, forward)
	slopes(t, "gamma", gamma, dout, dgamma, forward)
	slopes(t, "beta", beta, dout, dbeta, forward)
}

func TestAttentionTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	for _, causal := range []bool{false, true} {
		a := attnShape{batch: 2, tokens: 4, heads: 2, size: 3, causal: causal}
		qkv, dout := random(rng, 2*4*18), random(rng, 2*4*6)
		slopes(t, "qkv", qkv, dout, twinAttentionGrad(a, qkv, dout), func() []float64 {
			out, _ := twinAttention(a, qkv)
			return out
		})
	}
}

func TestCrossEntropyTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	logits, targets := random(rng, 12), []int{2, -1, 0}
	_, _, grad := twinCrossEntropy(logits, targets, 4, 0.5)
	slopes(t, "logits", logits, []float64{0.5}, grad, func() []float64 {
		loss, _, _ := twinCrossEntropy(logits, targets, 4, 0.5)
		return []float64{loss}
	})
}

func TestImageTwins(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	c := convShape{batch: 2, in: 2, h: 5, w: 4, out: 3, kernel: 3, stride: 2, padding: 1}
	x, w, bias, dout := random(rng, 80), random(rng, 54), random(rng, 3), random(rng, c.outLen())
	forward := func() []float64 { return twinConv(c, x, w, bias) }
	dx, dw, db := twinConvGrad(c, x, w, dout)
	slopes(t, "x", x, dout, dx, forward)
	slopes(t, "weight", w, dout, dw, forward)
	slopes(t, "bias", bias, dout, db, forward)

	p := convShape{batch: 2, in: 2, h: 5, w: 4, out: 2, kernel: 2, stride: 1}
	dout = random(rng, p.outLen())
	_, index := twinMaxPool(p, x)
	slopes(t, "max pool", x, dout, twinPoolGrad(p, dout, index), func() []float64 { out, _ := twinMaxPool(p, x); return out })
	slopes(t, "average pool", x, dout, twinPoolGrad(p, dout, nil), func() []float64 { return twinAvgPool(p, x) })
}

// TestPhiloxTwin holds the generator to the known answers of Random123's
// kat_vectors.
func TestPhiloxTwin(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := twinPhilox(c.ctr, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.ctr, c.key, got, c.want)
		}
	}
}
