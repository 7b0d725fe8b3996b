package collectivetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ddprun/ddprun/collective"
)

// reductions are all of them.
var reductions = []collective.ReduceOp{collective.Sum, collective.Min, collective.Max, collective.Product}

// input is what rank r contributes: values that need rounding, of both signs,
// and never so large that a product of eight leaves the type.
func input[T collective.Element](r, count int) []T {
	rng := rand.New(rand.NewPCG(uint64(count), uint64(r)))
	v := make([]T, count)
	for i := range v {
		x := rng.Float64()*3 - 1.5
		switch any(v[i]).(type) {
		case float32, float64:
			v[i] = T(x)
		default:
			v[i] = T(int64(x * 40)) // wraps in uint8, and products wrap: that is defined
		}
	}
	return v
}

// combine is the reduction, element by element in rank order, in the wider
// type for floats. scale is the sum of the magnitudes, to judge rounding by.
func combine[T collective.Element](all [][]T, op collective.ReduceOp, i int) (want T, scale float64) {
	if isFloat[T]() {
		x, scale := combineFloat(all, op, i)
		return T(x), scale
	}
	want = all[0][i]
	for _, v := range all[1:] {
		switch op {
		case collective.Sum:
			want += v[i]
		case collective.Product:
			want *= v[i]
		case collective.Min:
			want = min(want, v[i])
		case collective.Max:
			want = max(want, v[i])
		}
	}
	return want, 0
}

func combineFloat[T collective.Element](all [][]T, op collective.ReduceOp, i int) (want, scale float64) {
	want = float64(all[0][i])
	scale = math.Abs(want)
	for _, v := range all[1:] {
		x := float64(v[i])
		switch op {
		case collective.Sum:
			want += x
			scale += math.Abs(x)
		case collective.Product:
			want *= x
			scale = math.Abs(want)
		case collective.Min:
			want, scale = min(want, x), 0
		case collective.Max:
			want, scale = max(want, x), 0
		}
	}
	return want, scale
}

func isFloat[T collective.Element]() bool {
	var z T
	switch any(z).(type) {
	case float32, float64:
		return true
	}
	return false
}

// epsilon is the rounding of one operation.
func epsilon[T collective.Element]() float64 {
	var z T
	switch any(z).(type) {
	case float32:
		return 0x1p-23
	case float64:
		return 0x1p-52
	}
	return 0
}

// expected is the twin's result of a reduction and how far each element may be
// off for rounding.
type expected[T collective.Element] struct {
	want []T
	off  []float64
}

// expect computes a reduction of all contributions.
func expect[T collective.Element](all [][]T, op collective.ReduceOp) expected[T] {
	e := expected[T]{want: make([]T, len(all[0])), off: make([]float64, len(all[0]))}
	unit := epsilon[T]() * float64(len(all))
	for i := range e.want {
		var scale float64
		e.want[i], scale = combine(all, op, i)
		e.off[i] = scale * unit
	}
	return e
}

// check compares a result that starts at element from of the whole.
func (e expected[T]) check(got []T, from int) error {
	for i, g := range got {
		want := e.want[from+i]
		if g != want && !(math.Abs(float64(g)-float64(want)) <= e.off[from+i]) {
			return fmt.Errorf("element %d is %v, want %v", from+i, g, want)
		}
	}
	return nil
}

func checkSame[T collective.Element](got, want []T) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}
