//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/ddprun/ddprun/worker/device/cuda/cublaslt"
)

// product is a row-major matrix product in device memory: out [m n] =
// epilogue(op(a) op(b) + beta*out), rows without gaps.
//
// cuBLASLt is column-major, where a row-major matrix is its own transpose. So
// it is asked for out' [n m] = op(b)' op(a)': the factors change places, and
// each keeps its flag. A bias, one number for each of our columns, is then one
// for each row of out', as the library has it.
type product struct {
	op             string
	out, a, b      uintptr
	transA, transB bool
	m, n, k        int
	beta           float32
	bias           uintptr // [n]; 0: none
	aux            uintptr // [m n] of a GELU epilogue; 0: none
	epilogue       cublaslt.Epilogue
}

// problem is the product for the library.
func (p *product) problem(tf32 bool) cublaslt.Problem {
	compute := cublaslt.ComputeFloat32
	if tf32 {
		compute = cublaslt.ComputeTF32
	}
	q := cublaslt.Problem{
		TransA: p.transB, TransB: p.transA, M: p.n, N: p.m, K: p.k,
		LDA: p.n, LDB: p.k, LDD: p.n,
		AB: cublaslt.Float32, D: cublaslt.Float32, Compute: compute, Epilogue: p.epilogue,
		AlignA: alignment(p.b), AlignB: alignment(p.a), AlignD: alignment(p.out), AlignBias: alignment(p.bias | p.aux),
	}
	if p.transB {
		q.LDA = p.k
	}
	if p.transA {
		q.LDB = p.m
	}
	if p.aux != 0 {
		q.AuxLD = p.n
	}
	return q
}

// alignment is the largest power of two up to 256 that divides an address.
func alignment(addr uintptr) int {
	const most = 256
	if addr%most == 0 {
		return most
	}
	return int(addr & -addr)
}

// multiply enqueues a product of at least one element and one term. The error
// is cublaslt.ErrUnsupported when there is no algorithm with its epilogue;
// without one, or with a bias, there is always a way.
func (d *Device) multiply(p product) error {
	err := d.multiplyByLibrary(p)
	switch {
	case err == nil:
		return d.enqueued(p.op, "cuBLASLt")
	case errors.Is(err, cublaslt.ErrUnsupported) && p.epilogue == cublaslt.Bias:
		return d.multiplyThenBias(p)
	case errors.Is(err, cublaslt.ErrUnsupported) && p.epilogue == cublaslt.Plain:
		return d.multiplyPlainly(p)
	case errors.Is(err, cublaslt.ErrUnsupported):
		return err
	}
	return d.named(p.op, fmt.Errorf("[%d %d] by %d: %w", p.m, p.n, p.k, err))
}

func (d *Device) multiplyByLibrary(p product) error {
	plan, fresh, err := d.lt.Plan(p.problem(d.opt.TF32), d.opt.Benchmark)
	if err != nil {
		return err
	}
	if fresh && plan.Found > 1 && !d.capture {
		if err := d.fastest(plan, p); err != nil {
			return err
		}
	}
	return d.lt.Run(plan, p.operands(), uintptr(d.compute))
}

func (p *product) operands() cublaslt.Operands {
	return cublaslt.Operands{A: p.b, B: p.a, D: p.out, Bias: p.bias, Aux: p.aux, Beta: p.beta}
}

// multiplyThenBias does without the epilogue.
func (d *Device) multiplyThenBias(p product) error {
	bias := p.bias
	p.bias, p.epilogue = 0, cublaslt.Plain
	if err := d.multiply(p); err != nil {
		return err
	}
	return d.addBias(p.op, p.out, bias, p.m, p.n)
}

func (d *Device) addBias(op string, x, bias uintptr, rows, n int) error {
	return d.start(op, "ddp_bias_add_f32").addr(x, bias).long(rows).ints(n).over(rows * n).run()
}

// multiplyPlainly is for shapes that the library has no algorithm for at all.
func (d *Device) multiplyPlainly(p product) error {
	q := p.problem(false)
	return d.start(p.op, "ddp_gemm_f32").addr(p.out, p.a, p.b).ints(p.m, p.n, p.k).flag(p.transA).flag(p.transB).
		ints(q.LDB, q.LDA, q.LDD).floats(p.beta).
		grid(ceil(p.n, 16), min(ceil(p.m, 16), 65535)).block(16, 16).run()
}

// Unsupported is the number of different products so far that cuBLASLt had no
// algorithm for, which therefore took a slower way.
func (d *Device) Unsupported() int { return d.lt.Unsupported() }

// fastest measures a plan's algorithms on the product's own factors, into
// scratch memory, and chooses.
func (d *Device) fastest(plan *cublaslt.Plan, p product) error {
	scratch, err := d.temp("measuring products", 4*p.m*p.n)
	if err != nil {
		return nil // no memory to measure in: the heuristics' first choice stays
	}
	defer d.drop(scratch)
	if d.timing[0] == 0 {
		for i := range d.timing {
			if d.timing[i], err = d.ctx.NewEvent(true); err != nil {
				return err
			}
		}
	}
	o := p.operands()
	o.D, o.Beta = scratch, 0
	best, chosen := time.Duration(0), -1
	for i := range plan.Found {
		plan.Chosen = i
		took, err := d.measure(plan, o)
		if err != nil {
			return err
		}
		if chosen < 0 || took < best {
			best, chosen = took, i
		}
	}
	plan.Chosen = chosen
	return nil
}

// measure is the time of a few runs; the first, which loads the code, does not
// count.
func (d *Device) measure(plan *cublaslt.Plan, o cublaslt.Operands) (time.Duration, error) {
	const rounds = 3
	for round := range rounds + 1 {
		if round == 1 {
			if err := d.ctx.Record(d.timing[0], d.compute); err != nil {
				return 0, err
			}
		}
		if err := d.lt.Run(plan, o, uintptr(d.compute)); err != nil {
			return 0, err
		}
	}
	if err := d.ctx.Record(d.timing[1], d.compute); err != nil {
		return 0, err
	}
	if err := d.ctx.WaitEvent(d.timing[1]); err != nil {
		return 0, err
	}
	return d.ctx.Elapsed(d.timing[0], d.timing[1])
}
