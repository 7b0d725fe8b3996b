package ncclgroup

import (
	"strings"
	"testing"

	"github.com/ddprun/ddprun/collective"
)

func TestVerdict(t *testing.T) {
	o := spec{seq: 41, kind: allReduce, dtype: collective.Float32, reduce: collective.Sum, count: 1000}
	at := func(next, done uint64, ops ...string) state {
		return state{Next: next, Done: done, First: next - uint64(len(ops)), Ops: ops}
	}
	in := at(42, 41, "#40 barrier", o.String())
	computing := in
	computing.Computing = true
	for name, c := range map[string]struct {
		states map[int]state
		class  class
		want   []string
		not    []string
	}{
		"all in": {map[int]state{0: in, 1: in, 2: in}, classTimeout, []string{"all 3 ranks have issued it", "stuck"}, nil},
		"one never came": {
			map[int]state{0: in, 1: at(41, 41, "#40 barrier"), 2: in},
			classTimeout,
			[]string{"rank 1 never came to it, its last operation is #40 barrier"},
			[]string{"rank 2", "not done"},
		},
		"one is at another": {
			map[int]state{0: in, 1: at(41, 40, "#40 barrier"), 2: in},
			classTimeout,
			[]string{"rank 1 never came to it, its last operation is #40 barrier, not done"},
			nil,
		},
		"two at different places": {
			map[int]state{0: in, 1: at(41, 41, "#40 barrier"), 2: {}},
			classTimeout,
			[]string{"rank 1 never came to it, its last operation is #40 barrier; rank 2 never came to it, nor to any operation"},
			nil,
		},
		"two at the same place": {
			map[int]state{0: in, 1: at(41, 41, "#40 barrier"), 2: at(41, 41, "#40 barrier")},
			classTimeout,
			[]string{"rank 1, rank 2 never came to it"},
			nil,
		},
		"one does not answer": {map[int]state{0: in, 1: in}, classTimeout, []string{"rank 2 does not answer"}, []string{"rank 1"}},
		"one has left":        {map[int]state{0: in, 1: {Left: true}, 2: in}, classTimeout, []string{"rank 1 has closed the group"}, []string{"rank 2", "never"}},
		"one computes":        {map[int]state{0: in, 1: in, 2: computing}, classTimeout, []string{"rank 2 has enqueued it but still computes"}, []string{"rank 1"}},
		"one skipped an operation": {
			map[int]state{0: in, 1: in, 2: at(42, 41, "#40 barrier", "#41 barrier")},
			classMismatch,
			[]string{"rank 0 runs " + o.String(), "rank 2 runs #41 barrier"},
			[]string{"rank 1"},
		},
		"one went on without it": { // a broadcast's root, say: it does not wait for the others
			map[int]state{0: in, 1: at(50, 50, "#41 all_reduce(max, 1 int32)", "", "", "", "", "", "", "", "#49 barrier"), 2: in},
			classMismatch,
			[]string{"rank 1 runs #41 all_reduce(max, 1 int32)"},
			nil,
		},
	} {
		class, text := verdict(o, 0, 3, c.states)
		if class != c.class {
			t.Errorf("%s: class %s, want %s: %s", name, class, c.class, text)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in %q", name, w, text)
			}
		}
		for _, w := range c.not {
			if strings.Contains(text, w) {
				t.Errorf("%s: %q is in %q", name, w, text)
			}
		}
	}
}

func TestDisagreementReadsTheSameOnBothSides(t *testing.T) {
	if a, b := disagreement(3, "x", 1, "y"), disagreement(1, "y", 3, "x"); a != b || a != "rank 1 runs y, but rank 3 runs x" {
		t.Errorf("%q and %q", a, b)
	}
}

func TestManyRanksAreCutShort(t *testing.T) {
	ranks := make([]int, 1000)
	for i := range ranks {
		ranks[i] = i
	}
	if got := list(ranks); len(got) > 200 || !strings.HasSuffix(got, "and 984 more") {
		t.Error(got)
	}
}

func TestHostBuffersHaveALimit(t *testing.T) {
	b := collective.HostBuffer(make([]uint8, 8))
	b.Count = maxHost + 1
	err := checkBuffer(b)
	if err == nil || !strings.Contains(err.Error(), "put it into cuda memory") {
		t.Errorf("error %v", err)
	}
}
