package devicetest

import (
	"bytes"
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

func testMemory(s *suite) {
	for _, shape := range [][]int{{1}, {3, 5}, {0}, {2, 0, 3}, {}, {1, 1, 1, 1}, {1000, 37}} {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Int32} {
			a, b := s.raw("a", dtype, shape...), s.raw("b", dtype, shape...)
			if a.Place() != s.dev.Place() || a.DType() != dtype || a.Len() != tensor.Count(shape) {
				s.Fatalf("Alloc made %s", a)
			}
			sent := s.bytes(a.Bytes()) // NaNs and all
			got := make([]byte, len(sent))
			s.ok(s.dev.Upload(a, sent))
			s.ok(s.dev.Copy(b, a))
			s.ok(s.dev.Zero(a))
			s.ok(s.dev.Download(got, b))
			if !bytes.Equal(got, sent) {
				s.Errorf("%s%v: Download differs from what Upload and Copy put there", dtype, shape)
			}
			s.ok(s.dev.Download(got, a))
			if !bytes.Equal(got, make([]byte, len(got))) {
				s.Errorf("%s%v: Zero left something", dtype, shape)
			}
		}
	}
	s.slices()
}

// slices writes into the middle of a tensor through a view.
func (s *suite) slices() {
	whole := s.upload("whole", constant(12, 1), 3, 4)
	row, err := whole.Slice(4, 2, 2)
	s.ok(err)
	s.live = append(s.live, row)
	s.ok(s.dev.Upload(row, make([]byte, 16)))
	s.near("whole", whole, []float64{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1})
	s.near("row", row, constant(4, 0))
}

func (s *suite) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return b
}

// testReuse holds the statistics, and that a second round of the same
// allocations takes nothing from the system.
func testReuse(s *suite) {
	if got := s.dev.Stats(); got.Allocated != 0 {
		s.Errorf("a fresh device has %d bytes allocated", got.Allocated)
	}
	sizes := []int{1, 16, 17, 100, 1000, 4097, 65536, 300001, 100, 100}
	var first device.MemoryStats
	for round := range 3 {
		held := 0
		for i, n := range sizes {
			t := s.raw(fmt.Sprint("t", i), tensor.Float32, n)
			held += t.Bytes()
			got := s.dev.Stats()
			if got.Allocated < held || got.PeakAllocated < got.Allocated || got.Reserved < got.Allocated || got.PeakReserved < got.Reserved {
				s.Fatalf("%d bytes are held, statistics say %+v", held, got)
			}
		}
		s.tensorsApart()
		s.drop()
		got := s.dev.Stats()
		if got.Allocated != 0 {
			s.Fatalf("all is released, statistics say %+v", got)
		}
		if round == 0 {
			first = got
		} else if got != first {
			s.Errorf("round %d: statistics are %+v, were %+v after the first", round, got, first)
		}
	}
	s.viewsHold()
}

// tensorsApart fills each tensor with its number and looks whether another
// changed it.
func (s *suite) tensorsApart() {
	for i, t := range s.live {
		s.ok(s.dev.Upload(t, bytes.Repeat([]byte{byte(i + 1)}, t.Bytes())))
	}
	for i, t := range s.live {
		got := make([]byte, t.Bytes())
		s.ok(s.dev.Download(got, t))
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(i + 1)}, t.Bytes())) {
			s.Fatalf("tensor %d of %d bytes shares memory with another", i, t.Bytes())
		}
	}
}

// viewsHold checks that memory lives until the last view is released.
func (s *suite) viewsHold() {
	t, err := s.dev.Alloc("viewed", tensor.Float32, 64)
	s.ok(err)
	v, err := t.View(8, 8)
	s.ok(err)
	t.Release()
	if s.dev.Stats().Allocated < 256 {
		s.Error("memory went back while a view held it")
	}
	v.Release()
}

func testMemoryErrors(s *suite) {
	t := s.alloc("fourteen", 14)
	s.refuses(s.dev.Upload(t, make([]byte, 55)), "fourteen", "55", "56")
	s.refuses(s.dev.Download(make([]byte, 57), t), "fourteen", "57", "56")
	s.refuses(s.dev.Copy(t, s.alloc("fifteen", 15)), "fourteen", "fifteen", "[14]", "[15]")
	s.refuses(s.dev.Copy(t, s.ints("whole", make([]int, 14), 14)), "fourteen", "whole", "int32", "float32")
	s.refuses(s.dev.Copy(t, s.foreign(14)), "alien", "cuda:63")
	s.refuses(s.dev.Zero(s.foreign(14)), "alien", "cuda:63")
	s.refuses(s.dev.Upload(s.foreign(1), make([]byte, 4)), "alien", "cuda:63")
	s.refuses(s.dev.Download(make([]byte, 4), s.foreign(1)), "alien", "cuda:63")
	s.refuses(s.dev.Zero(nil))
	_, err := s.dev.Alloc("negative", tensor.Float32, 2, -1)
	s.refuses(err, "negative", "[2 -1]")
	_, err = s.dev.Alloc("vast", tensor.Float32, 1<<30, 1<<30, 1<<30)
	s.refuses(err, "vast")
	_, err = s.dev.Alloc("untyped", 0, 2)
	s.refuses(err, "untyped")
	s.near("fourteen", t, constant(14, 77))
}
