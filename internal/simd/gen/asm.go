package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel is one assembly function. The assembly trusts its arguments: slices
// have the length of the first one unless doc says otherwise.
type kernel struct {
	name   string // name of the dispatching function; the assembly adds AVX2, the twin Go
	params string // as in a Go declaration
	result string
	doc    string
	body   func(a *asm)
}

type parameter struct{ name, typ string }

// parameters splits "dst, x []float32, alpha float32".
func (k kernel) parameters() []parameter {
	var out []parameter
	typ := ""
	parts := strings.Split(k.params, ", ")
	for i := len(parts) - 1; i >= 0; i-- {
		name, t, ok := strings.Cut(parts[i], " ")
		if ok {
			typ = t
		}
		out = append([]parameter{{name, typ}}, out...)
	}
	return out
}

// asm adds to avo's context what the loops here have in common.
type asm struct {
	*build.Context
	consts map[string]operand.Mem
	labels int
	tails  operand.Mem // eight set words, then eight clear ones
}

func newAsm() *asm {
	a := &asm{Context: build.NewContext(), consts: map[string]operand.Mem{}}
	a.ConstraintExpr("!purego")
	return a
}

func (a *asm) function(k kernel) {
	a.Function(k.name + "AVX2")
	a.Attributes(attr.NOSPLIT)
	a.Pragma("noescape")
	a.Doc(k.name + "AVX2 " + k.doc)
	a.SignatureExpr(strings.TrimSpace(fmt.Sprintf("func(%s) %s", k.params, k.result)))
	k.body(a)
	a.VZEROUPPER()
	a.RET()
}

// label makes a name that is free in this function.
func (a *asm) label(name string) string {
	a.labels++
	return fmt.Sprintf("%s%d", name, a.labels)
}

// words is a read-only table of 32-bit words.
func (a *asm) words(name string, w ...uint32) operand.Mem {
	if m, ok := a.consts[name]; ok {
		return m
	}
	m := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, v := range w {
		a.AddDatum(4*i, operand.U32(v))
	}
	a.consts[name] = m
	return m
}

// bits is a vector with the same 32 bits in each lane, in memory.
func (a *asm) bits(v uint32) operand.Mem {
	return a.words(fmt.Sprintf("lanes_%08x", v), v, v, v, v, v, v, v, v)
}

// f is a vector with the same number in each lane, in memory.
func (a *asm) f(v float64) operand.Mem { return a.bits(math.Float32bits(float32(v))) }

// base loads the address of a slice.
func (a *asm) base(name string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(name).Base(), r)
	return r
}

// length loads the length of a slice.
func (a *asm) length(name string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(name).Len(), r)
	return r
}

// scalar spreads a float32 argument over the lanes of a register.
func (a *asm) scalar(name string) reg.VecVirtual {
	b, err := a.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	y := a.YMM()
	a.VBROADCASTSS(b.Addr, y)
	return y
}

// constant loads a constant into a register.
func (a *asm) constant(v float64) reg.VecVirtual {
	y := a.YMM()
	a.VMOVUPS(a.f(v), y)
	return y
}

func (a *asm) zero() reg.VecVirtual {
	y := a.YMM()
	a.VXORPS(y, y, y)
	return y
}

func (a *asm) copy(x reg.VecVirtual) reg.VecVirtual {
	y := a.YMM()
	a.VMOVAPS(x, y)
	return y
}

// tailMask sets the first n lanes, 0 < n < 8.
func (a *asm) tailMask(n reg.GPVirtual) reg.VecVirtual {
	const all = 0xffffffff
	table := a.words("tail_mask", all, all, all, all, all, all, all, all, 0, 0, 0, 0, 0, 0, 0, 0)
	p, skip := a.GP64(), a.GP64()
	a.LEAQ(table, p)
	a.MOVQ(operand.U32(8), skip)
	a.SUBQ(n, skip)
	m := a.YMM()
	a.VMOVUPS(operand.Mem{Base: p, Index: skip, Scale: 4}, m)
	return m
}

// vec is one step of eight elements within a loop.
type vec struct {
	*asm
	slices map[string]reg.GPVirtual
	index  reg.GPVirtual
	lane   int            // this step's place in an unrolled round
	mask   reg.VecVirtual // nil: all eight
}

func (v vec) mem(slice string) operand.Mem {
	p, ok := v.slices[slice]
	if !ok {
		panic("no slice " + slice)
	}
	return operand.Mem{Base: p, Index: v.index, Scale: 4, Disp: 32 * v.lane}
}

// load reads eight elements; those outside the slice read as zero.
func (v vec) load(slice string) reg.VecVirtual {
	y := v.YMM()
	if v.mask == nil {
		v.VMOVUPS(v.mem(slice), y)
	} else {
		v.VMASKMOVPS(v.mem(slice), v.mask, y)
	}
	return y
}

func (v vec) store(y reg.VecVirtual, slice string) {
	if v.mask == nil {
		v.VMOVUPS(y, v.mem(slice))
	} else {
		v.VMASKMOVPS(y, v.mask, v.mem(slice))
	}
}

// clip clears the lanes of y outside the slice.
func (v vec) clip(y reg.VecVirtual) {
	if v.mask != nil {
		v.VANDPS(v.mask, y, y)
	}
}

// each runs body over all elements of the named slices, whose common length
// is that of the first: rounds of unroll steps, single steps, a masked rest.
func (a *asm) each(slices string, unroll int, body func(v vec)) {
	names := strings.Fields(slices)
	v := vec{asm: a, slices: map[string]reg.GPVirtual{}, index: a.GP64()}
	for _, n := range names {
		v.slices[n] = a.base(n)
	}
	left := a.length(names[0])
	a.XORQ(v.index, v.index)
	if unroll > 1 {
		a.rounds(v, left, unroll, body)
	}
	a.rounds(v, left, 1, body)
	done := a.label("done")
	a.TESTQ(left, left)
	a.JE(operand.LabelRef(done))
	v.mask = a.tailMask(left)
	v.lane = 0
	body(v)
	a.Label(done)
}

func (a *asm) rounds(v vec, left reg.GPVirtual, unroll int, body func(v vec)) {
	again, rest := a.label("again"), a.label("rest")
	step := operand.U32(uint32(8 * unroll))
	a.Label(again)
	a.CMPQ(left, step)
	a.JL(operand.LabelRef(rest))
	for v.lane = 0; v.lane < unroll; v.lane++ {
		body(v)
	}
	a.ADDQ(step, v.index)
	a.SUBQ(step, left)
	a.JMP(operand.LabelRef(again))
	a.Label(rest)
}

// fold combines the lanes of y into the lowest one of an XMM register.
func (a *asm) fold(y reg.VecVirtual, op func(src, a, dst operand.Op)) reg.VecVirtual {
	lo, hi := a.XMM(), a.XMM()
	a.VEXTRACTF128(operand.U8(1), y, hi)
	a.VEXTRACTF128(operand.U8(0), y, lo)
	op(hi, lo, lo)
	a.VPERMILPS(operand.U8(0x4e), lo, hi)
	op(hi, lo, lo)
	a.VPERMILPS(operand.U8(0xb1), lo, hi)
	op(hi, lo, lo)
	return lo
}

// foldDouble adds the four float64 lanes of y.
func (a *asm) foldDouble(y reg.VecVirtual) reg.VecVirtual {
	lo, hi := a.XMM(), a.XMM()
	a.VEXTRACTF128(operand.U8(1), y, hi)
	a.VEXTRACTF128(operand.U8(0), y, lo)
	a.VADDPD(hi, lo, lo)
	a.VPERMILPD(operand.U8(1), lo, hi)
	a.VADDSD(hi, lo, lo)
	return lo
}
