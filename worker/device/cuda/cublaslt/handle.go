//go:build cuda

package cublaslt

// #include "lt.h"
import "C"

import (
	"errors"
	"unsafe"
)

// DataType is the type of a matrix's elements: CUDA's numbers.
type DataType int32

// Types of elements.
const (
	Float32  DataType = 0
	Float16  DataType = 2
	BFloat16 DataType = 14
)

// Compute is the arithmetic: cuBLAS's numbers.
type Compute int32

// Arithmetics. TF32 rounds the factors to 10 bits of mantissa.
const (
	ComputeFloat32 Compute = 68
	ComputeTF32    Compute = 77
)

// Epilogue is what happens to the product before it is written: cuBLASLt's
// numbers.
type Epilogue int32

// Epilogues. The bias is one number for each row of D. GELU is the form with
// tanh; GELUAux also writes what stood before it, DGELU multiplies by its
// slope there.
const (
	Plain       Epilogue = 1
	ReLU        Epilogue = 2
	Bias        Epilogue = 4
	ReLUBias    Epilogue = 6
	GELU        Epilogue = 32
	GELUBias    Epilogue = 36
	GELUAux     Epilogue = 160
	GELUAuxBias Epilogue = 164
	DGELU       Epilogue = 192
)

// Problem selects an algorithm: D = epilogue(op(A) op(B) + beta D), all
// column-major, op(A) M x K, op(B) K x N. Alignments are those of the
// addresses, in bytes.
type Problem struct {
	TransA, TransB bool
	M, N, K        int
	LDA, LDB, LDD  int
	AB, D          DataType
	Compute        Compute
	Epilogue       Epilogue
	AuxLD          int

	AlignA, AlignB, AlignD, AlignBias int
}

// ErrUnsupported is returned for a problem that the library has no algorithm
// for.
var ErrUnsupported = errors.New("cuBLASLt has no algorithm for this product")

const notSupported = 15

// Handle is the library on one GPU. It is used by one goroutine at a time, on
// an OS thread with the GPU's context current.
type Handle struct {
	*Library
	handle    unsafe.Pointer
	workspace uintptr
	bytes     int
	plans     map[Problem]*Plan
}

// New makes a handle. workspace is device memory that products on one stream
// may use, in turn.
func (l *Library) New(workspace uintptr, bytes int) (*Handle, error) {
	h := &Handle{Library: l, workspace: workspace, bytes: bytes, plans: map[Problem]*Plan{}}
	return h, l.check("cublasLtCreate", C.ddp_lt_create(l.lt, &h.handle))
}

// Close ends the handle and its plans.
func (h *Handle) Close() error {
	for _, p := range h.plans {
		C.ddp_lt_plan_free(h.lt, p.plan)
	}
	h.plans = map[Problem]*Plan{}
	return h.check("cublasLtDestroy", C.ddp_lt_destroy(h.lt, h.handle))
}

// Plan is a problem with the algorithms that serve it, best first as far as
// the library's heuristics know.
type Plan struct {
	plan   *C.ddp_plan // nil: there is none
	Found  int
	Chosen int // the algorithm that Run uses
}

// candidates is how many algorithms are asked for where they are measured.
const candidates = 8

// Plan asks for algorithms of a problem: one, or several to choose from. It
// asks the library once for each problem; fresh says that it did.
func (h *Handle) Plan(p Problem, several bool) (plan *Plan, fresh bool, err error) {
	if plan = h.plans[p]; plan != nil {
		if plan.plan == nil {
			return nil, false, ErrUnsupported
		}
		return plan, false, nil
	}
	want := 1
	if several {
		want = candidates
	}
	c := p.c(h.bytes)
	plan = &Plan{}
	var found C.int
	err = h.check("cublasLtMatmulAlgoGetHeuristic", C.ddp_lt_plan(h.lt, h.handle, &c, C.int(want), &plan.plan, &found))
	var status *StatusError
	if errors.As(err, &status) && status.Status == notSupported {
		h.plans[p] = plan
		return nil, true, ErrUnsupported
	}
	if err != nil {
		return nil, true, err
	}
	plan.Found = int(found)
	h.plans[p] = plan
	return plan, true, nil
}

func (p Problem) c(workspace int) C.ddp_problem {
	flag := func(b bool) C.int32_t {
		if b {
			return 1
		}
		return 0
	}
	// The bias counts for D's alignment: the library has no preference for it.
	return C.ddp_problem{
		trans_a: flag(p.TransA), trans_b: flag(p.TransB),
		m: C.uint64_t(p.M), n: C.uint64_t(p.N), k: C.uint64_t(p.K),
		lda: C.int64_t(p.LDA), ldb: C.int64_t(p.LDB), ldc: C.int64_t(p.LDD),
		type_ab: C.int32_t(p.AB), type_cd: C.int32_t(p.D), compute: C.int32_t(p.Compute),
		epilogue: C.int32_t(p.Epilogue), aux_ld: C.int64_t(p.AuxLD),
		align_a: C.uint32_t(p.AlignA), align_b: C.uint32_t(p.AlignB), align_c: C.uint32_t(p.AlignD), align_d: C.uint32_t(min(p.AlignD, p.AlignBias)),
		workspace: C.uint64_t(workspace),
	}
}

// Operands are device addresses; Bias and Aux are 0 where the epilogue has
// none.
type Operands struct {
	A, B, D, Bias, Aux uintptr
	Beta               float32
}

// Run enqueues the product on a stream. A plan that the library takes back
// (it checks some things only now) is ErrUnsupported from then on.
func (h *Handle) Run(p *Plan, o Operands, stream uintptr) error {
	err := h.check("cublasLtMatmul", C.ddp_lt_run(h.lt, h.handle, p.plan, C.int(p.Chosen), C.float(o.Beta),
		C.uint64_t(o.A), C.uint64_t(o.B), C.uint64_t(o.D), C.uint64_t(o.Bias), C.uint64_t(o.Aux),
		C.uint64_t(h.workspace), C.size_t(h.bytes), C.uintptr_t(stream)))
	var status *StatusError
	if errors.As(err, &status) && status.Status == notSupported {
		C.ddp_lt_plan_free(h.lt, p.plan)
		p.plan = nil
		return ErrUnsupported
	}
	return err
}

// Unsupported is the number of problems that the library had no algorithm for.
func (h *Handle) Unsupported() int {
	n := 0
	for _, p := range h.plans {
		if p.plan == nil {
			n++
		}
	}
	return n
}
