package collectivetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ddprun/ddprun/collective"
)

// counts are the element counts for n ranks: the edges of an even division,
// and sizes on both sides of where an algorithm may change.
func counts(n int) []int {
	c := []int{0, 1, n - 1, n, n + 1, 1000, 12_011}
	slices.Sort(c)
	return slices.Compact(c)
}

// large takes several segments a rank in any sensible backend. The largest
// groups of the suite get less, for the sake of its time under the race
// detector.
func large(n int) int {
	if n > 4 {
		return 300_007
	}
	return 1_000_003
}

func testResults(t *testing.T, open Open) {
	each(t, open, 1, func(t *testing.T, groups []collective.Group) {
		testType[float32](t, groups)
		if testing.Short() && len(groups) > 3 {
			return
		}
		testType[float64](t, groups)
		testType[int32](t, groups)
		testType[int64](t, groups)
		testType[uint8](t, groups)
		n := len(groups)
		allReduce[float32](t, groups, large(n), collective.Sum)
		broadcast[float32](t, groups, large(n), n-1)
		allGather[float32](t, groups, large(n)/n)
		reduceScatter[float32](t, groups, large(n)/n, collective.Sum)
		barrier(t, groups)
	})
}

func testType[T collective.Element](t *testing.T, groups []collective.Group) {
	n := len(groups)
	for _, count := range counts(n) {
		for _, op := range reductions {
			if op != collective.Sum && count > 1000 {
				continue
			}
			allReduce[T](t, groups, count, op)
			reduceScatter[T](t, groups, count/n, op)
		}
		for _, root := range slices.Compact([]int{0, n / 2, n - 1}) {
			broadcast[T](t, groups, count, root)
		}
		allGather[T](t, groups, count/n)
	}
}

// inputs are the contributions of all ranks.
func inputs[T collective.Element](n, count int) [][]T {
	all := make([][]T, n)
	for r := range all {
		all[r] = input[T](r, count)
	}
	return all
}

// report fails the test with the first error of a rank.
func report[T collective.Element](t *testing.T, r int, err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		var z T
		t.Errorf("rank %d, %s of %T: %v", r, fmt.Sprintf(what, args...), z, err)
	}
}

func allReduce[T collective.Element](t *testing.T, groups []collective.Group, count int, op collective.ReduceOp) {
	t.Helper()
	all := inputs[T](len(groups), count)
	twin := expect(all, op)
	ranks(groups, func(r int, g collective.Group) {
		buf := slices.Clone(all[r])
		err := wait(g.AllReduce(collective.HostBuffer(buf), op))
		if err == nil {
			err = twin.check(buf, 0)
		}
		report[T](t, r, err, "all-reduce %v %d", op, count)
	})
}

func reduceScatter[T collective.Element](t *testing.T, groups []collective.Group, count int, op collective.ReduceOp) {
	t.Helper()
	all := inputs[T](len(groups), count*len(groups))
	twin := expect(all, op)
	ranks(groups, func(r int, g collective.Group) {
		dst, src := make([]T, count), slices.Clone(all[r])
		err := wait(g.ReduceScatter(collective.HostBuffer(dst), collective.HostBuffer(src), op))
		if err == nil {
			err = twin.check(dst, r*count)
		}
		report[T](t, r, err, "reduce-scatter %v %d", op, count)
	})
}

func broadcast[T collective.Element](t *testing.T, groups []collective.Group, count, root int) {
	t.Helper()
	want := input[T](root, count)
	ranks(groups, func(r int, g collective.Group) {
		buf := input[T](r, count)
		err := wait(g.Broadcast(collective.HostBuffer(buf), root))
		if err == nil {
			err = checkSame(buf, want)
		}
		report[T](t, r, err, "broadcast of %d from %d", count, root)
	})
}

func allGather[T collective.Element](t *testing.T, groups []collective.Group, count int) {
	t.Helper()
	want := slices.Concat(inputs[T](len(groups), count)...)
	ranks(groups, func(r int, g collective.Group) {
		src, dst := input[T](r, count), make([]T, count*len(groups))
		err := wait(g.AllGather(collective.HostBuffer(dst), collective.HostBuffer(src)))
		if err == nil {
			err = checkSame(dst, want)
		}
		if err == nil {
			err = checkSame(src, input[T](r, count))
		}
		report[T](t, r, err, "all-gather %d", count)
	})
}

func barrier(t *testing.T, groups []collective.Group) {
	t.Helper()
	ranks(groups, func(r int, g collective.Group) { report[uint8](t, r, wait(g.Barrier()), "barrier") })
}

// testInPlace uses the rank's own part of the larger buffer as the smaller one.
func testInPlace(t *testing.T, open Open) {
	each(t, open, 1, func(t *testing.T, groups []collective.Group) {
		n := len(groups)
		for _, count := range []int{1, 1000, 20_001} {
			all := inputs[float32](n, count*n)
			twin := expect(all, collective.Sum)
			ranks(groups, func(r int, g collective.Group) {
				buf := slices.Clone(all[r])
				part := buf[r*count : (r+1)*count]
				err := wait(g.ReduceScatter(collective.HostBuffer(part), collective.HostBuffer(buf), collective.Sum))
				if err == nil {
					err = twin.check(part, r*count)
				}
				report[float32](t, r, err, "reduce-scatter %d", count)
				err = wait(g.AllGather(collective.HostBuffer(buf), collective.HostBuffer(part)))
				if err == nil {
					err = twin.check(buf, 0)
				}
				report[float32](t, r, err, "all-gather %d", count)
			})
		}
	})
}

// testBits checks that all ranks and repeated runs have the same bits, with
// rounding, infinities and NaNs of different payloads in the sums.
func testBits(t *testing.T, open Open) {
	for _, n := range []int{2, 3, 5, 8} {
		for _, count := range []int{9, 1001, 70_001, 300_007} {
			var first []float32
			for run := range 2 {
				with(t, open, n, func(t *testing.T, groups []collective.Group) {
					results := make([][]float32, n)
					ranks(groups, func(r int, g collective.Group) {
						results[r] = special(r, count)
						report[float32](t, r, wait(g.AllReduce(collective.HostBuffer(results[r]), collective.Sum)), "all-reduce")
					})
					if first == nil {
						first = results[0]
					}
					for r, got := range results {
						if i := differ(first, got); i >= 0 {
							t.Errorf("%d ranks, %d elements, run %d: element %d has the bits %08x on rank %d, %08x on rank 0 of run 0",
								n, count, run, i, math.Float32bits(got[i]), r, math.Float32bits(first[i]))
						}
					}
				})
			}
		}
	}
}

// special is input with odd values strewn in.
func special(r, count int) []float32 {
	v := input[float32](r, count)
	for i := r; i < count; i += 7 {
		switch i / 7 % 4 {
		case 0:
			v[i] = math.Float32frombits(0x7fc00000 | uint32(r+1)) // a NaN of this rank's own
		case 1:
			v[i] = float32(math.Inf(1 - 2*(r&1)))
		case 2:
			v[i] = float32(math.Copysign(0, -1))
		case 3:
			v[i] *= 1e30
		}
	}
	return v
}

func differ(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}
