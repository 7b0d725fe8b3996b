package cpu

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/collective"
)

func FuzzHeader(f *testing.F) {
	var b [headerLen]byte
	h := header{kind: kindOp, spec: spec{op: opAllReduce, dtype: collective.Float32, reduce: collective.Sum, seq: 7}, size: 64, a: 16}
	h.encode(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b, again [headerLen]byte
		copy(b[:], raw)
		var h header
		if h.decode(&b) != nil {
			return
		}
		h.encode(&again)
		if again != b {
			t.Fatalf("%x became %x", b, again)
		}
		_ = h.spec.String()
	})
}

// FuzzPeer feeds any bytes to an engine as the input from a peer: it must end
// in an error or wait for more, and touch nothing outside its buffers.
func FuzzPeer(f *testing.F) {
	frames := func(hs ...header) []byte {
		var out []byte
		for _, h := range hs {
			var b [headerLen]byte
			h.encode(&b)
			out = append(append(out, b[:]...), make([]byte, h.size)...)
		}
		return out
	}
	s := spec{op: opAllReduce, dtype: collective.Float32, reduce: collective.Sum}
	f.Add(uint8(0), frames(header{kind: kindOp, spec: s, size: 400, a: 100}))
	f.Add(uint8(1), frames(header{kind: kindOp, spec: s, size: maxSegment, a: 200_000}, header{kind: kindScatter, spec: s, size: 400_000 - maxSegment, a: maxSegment}))
	f.Add(uint8(1), frames(header{kind: kindFarewell, size: 10, a: 1, b: 3}))
	f.Fuzz(func(t *testing.T, which uint8, input []byte) {
		if len(input) > 1<<20 {
			return
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Skip(err)
		}
		defer func() { _ = unix.Close(fds[1]) }()
		count := []int{100, 200_000, 0}[which%3]
		e := newEngine(0, 2, 0, []int{-1, fds[0]}, -1)
		defer e.byRank[1].close()
		buf := collective.HostBuffer(make([]float32, count))
		o := &operation{spec: s, dst: memory(buf), src: memory(buf)}
		o.count = uint64(count)
		e.op, e.mine = o, o.spec
		e.plan(o)
		p := e.byRank[1]
		for len(input) > 0 {
			n, err := unix.Write(fds[1], input[:min(len(input), 50_000)])
			if err != nil {
				return // nobody takes it
			}
			input = input[n:]
			p.readable = true
			for range 100 {
				if f := e.turn(); f != nil || e.finished() {
					return
				}
			}
		}
	})
}

func TestChunksCoverTheBuffer(t *testing.T) {
	for _, element := range []int{1, 4, 8} {
		for n := 1; n <= 9; n++ {
			for count := range 700 {
				at := 0
				for r := range n {
					from, to := chunk(count*element, element, n, r)
					if from != at || to < from || from%element != 0 {
						t.Fatalf("%d elements of %d bytes, rank %d of %d: %d to %d, want from %d", count, element, r, n, from, to, at)
					}
					at = to
				}
				if at != count*element {
					t.Fatalf("%d elements of %d bytes for %d ranks: %d bytes are covered", count, element, n, at)
				}
			}
		}
	}
	// Beyond 2^31 bytes, without the memory.
	if from, to := chunk(12<<30, 4, 3, 2); to != 12<<30 || from != 8<<30 {
		t.Errorf("large buffer: %d to %d", from, to)
	}
}
