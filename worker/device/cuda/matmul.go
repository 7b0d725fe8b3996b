//go:build cuda

package cuda

import (
	"errors"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/cublaslt"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

const matmulOp = "matmul"

// MatMul computes Out = act(A*B + Bias) + Beta*Out, or the product times an
// activation's derivative. What the library can do while it writes the product
// it does; the rest is one pass of a kernel of ours.
func (d *Device) MatMul(a device.MatMulArgs) error {
	s, err := operand.MatMul(d.place, a)
	if err != nil || s.M == 0 || s.N == 0 {
		return err
	}
	p := product{
		op: matmulOp, out: a.Out.Addr(), a: a.A.Addr(), b: a.B.Addr(), transA: a.TransA, transB: a.TransB,
		m: s.M, n: s.N, k: s.K, beta: a.Beta, epilogue: cublaslt.Plain,
	}
	if d.opt.FuseActivations && s.K > 0 {
		done, err := d.fused(p, a)
		if done || err != nil {
			return err
		}
	}
	switch {
	case a.GradOf != device.Identity:
		return d.gradProduct(p, a)
	case a.Act != device.Identity || a.Pre != nil:
		return d.activeProduct(p, a)
	}
	return d.biasedProduct(p, a.Bias)
}

// biasedProduct is the product with its bias, if there is one.
func (d *Device) biasedProduct(p product, bias T) error {
	if bias == nil {
		return d.anyProduct(p)
	}
	if p.k == 0 {
		if err := d.anyProduct(p); err != nil {
			return err
		}
		return d.addBias(p.op, p.out, bias.Addr(), p.m, p.n)
	}
	p.bias, p.epilogue = bias.Addr(), cublaslt.Bias
	return d.multiply(p)
}

// anyProduct is the plain product, also of no terms.
func (d *Device) anyProduct(p product) error {
	if p.k > 0 {
		return d.multiply(p)
	}
	if p.beta == 0 {
		return d.named(p.op, d.ctx.Set(p.out, 0, p.m*p.n, d.compute))
	}
	return d.start(p.op, "ddp_scale_f32").addr(p.out).long(p.m * p.n).floats(p.beta).over(p.m * p.n).run()
}

// activeProduct makes the product where it is kept, and then bias and
// activation in one pass.
func (d *Device) activeProduct(p product, a device.MatMulArgs) error {
	if a.Pre != nil {
		p.out = a.Pre.Addr()
	}
	if err := d.anyProduct(p); err != nil {
		return err
	}
	return d.start(p.op, "ddp_bias_act_f32").tensors(a.Out, a.Pre).addr(p.out).tensors(a.Bias).
		long(p.m).ints(p.n, int(a.Act)).over(p.m * p.n).run()
}

// gradProduct multiplies the product by the derivative, in place.
func (d *Device) gradProduct(p product, a device.MatMulArgs) error {
	if err := d.anyProduct(p); err != nil {
		return err
	}
	return d.start(p.op, "ddp_activate_grad_f32").tensors(a.Out, a.Out, a.GradAt).long(p.m * p.n).ints(int(a.GradOf)).over(p.m * p.n).run()
}

// fused lets the library apply the activation. It says whether it did.
func (d *Device) fused(p product, a device.MatMulArgs) (bool, error) {
	if !p.fuse(a) {
		return false, nil
	}
	err := d.multiply(p)
	if errors.Is(err, cublaslt.ErrUnsupported) {
		return false, nil
	}
	return true, err
}

// fuse sets the epilogue that does the whole of a, if there is one. The
// library's derivative of ReLU reads a bit mask, ours the output, so it does
// not serve.
func (p *product) fuse(a device.MatMulArgs) bool {
	// The library wants rows of the second result in steps of 16 bytes.
	aligned := func(t T) bool { return p.n%8 == 0 && t.Addr()%16 == 0 }
	switch {
	case a.GradOf == device.GELUTanh && aligned(a.GradAt):
		p.aux, p.epilogue = a.GradAt.Addr(), cublaslt.DGELU
		return true
	case a.GradOf != device.Identity:
		return false
	case a.Act == device.ReLU && a.Pre == nil:
		p.epilogue = cublaslt.ReLU
	case a.Act == device.GELUTanh && a.Pre == nil:
		p.epilogue = cublaslt.GELU
	case a.Act == device.GELUTanh && aligned(a.Pre):
		p.aux, p.epilogue = a.Pre.Addr(), cublaslt.GELUAux
	default:
		return false
	}
	if a.Bias != nil {
		p.bias = a.Bias.Addr()
		p.epilogue |= cublaslt.Bias
	}
	return true
}
