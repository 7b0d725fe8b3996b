package devicetest

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device"
)

func testCrossEntropy(s *suite) {
	for _, size := range [][2]int{{1, 1}, {1, 2}, {5, 3}, {33, 10}, {7, 257}, {64, 1000}} {
		rows, n := size[0], size[1]
		name := fmt.Sprintf("[%d %d]", rows, n)
		v, targets := s.spread(rows*n), s.below(rows, n)
		if rows > 2 {
			targets[1], targets[rows-1] = -1, -100
		}
		const scale = 0.125
		loss, correct, grad := twinCrossEntropy(v, targets, n, scale)
		a := device.CrossEntropyArgs{
			Logits: s.upload("logits", v, rows, n), Targets: s.ints("targets", targets, rows),
			Loss: s.upload("loss", []float64{2.5}, 1), Correct: s.ints("correct", []int{3}, 1),
			DLogits: s.alloc("dlogits", rows, n), Scale: scale,
		}
		s.ok(s.dev.CrossEntropy(a))
		s.near(name+" loss", a.Loss, []float64{2.5 + loss})
		s.equalInts(name+" correct", a.Correct, []int{3 + correct})
		s.near(name+" gradient", a.DLogits, grad)
		s.near(name+" logits", a.Logits, v)

		// Each result alone, then the gradient in place.
		one := device.CrossEntropyArgs{Logits: a.Logits, Targets: a.Targets, Scale: scale}
		s.ok(s.dev.CrossEntropy(one))
		one.Loss = s.upload("loss", []float64{0}, 1)
		s.ok(s.dev.CrossEntropy(one))
		s.near(name+" loss alone", one.Loss, []float64{loss})
		one.Loss, one.Correct = nil, s.ints("correct", []int{0}, 1)
		s.ok(s.dev.CrossEntropy(one))
		s.equalInts(name+" correct alone", one.Correct, []int{correct})
		one.Loss, one.Correct, one.DLogits = s.upload("loss", []float64{0}, 1), s.ints("correct", []int{0}, 1), one.Logits
		s.ok(s.dev.CrossEntropy(one))
		s.near(name+" loss in place", one.Loss, []float64{loss})
		s.equalInts(name+" correct in place", one.Correct, []int{correct})
		s.near(name+" in place", one.Logits, grad)
	}
}

// testCrossEntropyHits has equal logits, extreme ones and a NaN.
func testCrossEntropyHits(s *suite) {
	inf := math.Inf(-1)
	rows := [][]float64{{1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1000, -1000, 0}, {inf, 1, 0}, {-3e4, -3e4 + 1, -3e4}}
	targets := []int{1, 2, 0, 0, 1, 1}
	var v []float64
	for _, r := range rows {
		v = append(v, r...)
	}
	loss, correct, grad := twinCrossEntropy(v, targets, 3, 1)
	a := device.CrossEntropyArgs{
		Logits: s.upload("logits", v, len(rows), 3), Targets: s.ints("targets", targets, len(rows)),
		Loss: s.upload("loss", []float64{0}, 1), Correct: s.ints("correct", []int{0}, 1),
		DLogits: s.alloc("dlogits", len(rows), 3), Scale: 1,
	}
	s.ok(s.dev.CrossEntropy(a))
	s.near("loss", a.Loss, []float64{loss})
	s.equalInts("correct: the first of equal logits counts", a.Correct, []int{correct})
	s.near("gradient", a.DLogits, grad)

	a.Logits, a.Targets = s.upload("logits", []float64{1, math.NaN(), 0}, 1, 3), s.ints("targets", []int{0}, 1)
	a.Loss, a.DLogits = s.upload("loss", []float64{0}, 1), s.alloc("dlogits", 1, 3)
	s.ok(s.dev.CrossEntropy(a))
	s.near("loss of NaN", a.Loss, []float64{math.NaN()})
}

func testCrossEntropyErrors(s *suite) {
	logits := s.upload("logits", constant(12, 1), 3, 4)
	good := device.CrossEntropyArgs{
		Logits: logits, Targets: s.ints("targets", []int{0, 3, 1}, 3), DLogits: s.alloc("dlogits", 3, 4),
		Loss: s.upload("loss", []float64{0}, 1), Correct: s.ints("correct", []int{0}, 1), Scale: 1,
	}
	bad := good
	bad.Targets = s.ints("labels", []int{0, 1, 4}, 3)
	if s.refuses(s.dev.CrossEntropy(bad), "cross-entropy", "labels", "row 2", "4") {
		s.near("loss after the error", good.Loss, []float64{0})
		s.near("gradient after the error", good.DLogits, constant(12, 77))
		s.equalInts("hits after the error", good.Correct, []int{0})
	}
	try := func(change func(*device.CrossEntropyArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.CrossEntropy(a), append(words, "cross-entropy")...)
	}
	try(func(a *device.CrossEntropyArgs) { a.Targets = s.ints("short", []int{0, 1}, 2) }, "short", "[2]", "[3]")
	try(func(a *device.CrossEntropyArgs) { a.Targets = s.alloc("floats", 3) }, "floats", "float32", "int32")
	try(func(a *device.CrossEntropyArgs) { a.DLogits = s.alloc("odd", 4, 3) }, "odd", "[4 3]", "[3 4]")
	try(func(a *device.CrossEntropyArgs) { a.Loss = s.alloc("odd", 2) }, "odd", "[2]", "[1]")
	try(func(a *device.CrossEntropyArgs) { a.Correct = s.alloc("floats", 1) }, "floats", "float32", "int32")
	try(func(a *device.CrossEntropyArgs) { a.Logits = s.foreign(3, 4) }, "alien", "cuda:63")
	try(func(a *device.CrossEntropyArgs) { a.Targets = nil }, "Targets")
}
