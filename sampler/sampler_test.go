package sampler

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// naive is the rule of PyTorch's DistributedSampler written down literally:
// the padded or cut global list, then every world-th entry of it.
func naive(c Config, epoch int) []int {
	var idx []int
	if c.Shuffle {
		idx = RandPerm(c.Length, c.Seed+int64(epoch))
	} else {
		for i := range c.Length {
			idx = append(idx, i)
		}
	}
	var per int
	if w := float64(c.WorldSize); c.DropLast && c.Length%c.WorldSize != 0 {
		per = int(math.Ceil((float64(c.Length) - w) / w))
	} else {
		per = int(math.Ceil(float64(c.Length) / w))
	}
	total := per * c.WorldSize
	for head := slices.Clone(idx); len(idx) < total; {
		idx = append(idx, head[:min(len(head), total-len(idx))]...)
	}
	idx = idx[:total]
	own := []int{}
	for i := c.Rank; i < total; i += c.WorldSize {
		own = append(own, idx[i])
	}
	return own
}

// checkShards holds every property of one epoch of a configuration.
func checkShards(t *testing.T, c Config, epoch int) {
	t.Helper()
	seen := make([]int, c.Length)
	var firstRound []int // what the ranks hold before padding
	for c.Rank = range c.WorldSize {
		s := mustNew(t, c)
		got := s.Indices(epoch)
		if want := naive(c, epoch); !slices.Equal(got, want) {
			t.Fatalf("%+v epoch %d: got %v, want %v", c, epoch, got, want)
		}
		if len(got) != s.NumSamples() {
			t.Fatalf("%+v: %d samples, NumSamples says %d", c, len(got), s.NumSamples())
		}
		for i, sample := range got {
			if sample < 0 || sample >= c.Length {
				t.Fatalf("%+v: sample %d does not exist", c, sample)
			}
			seen[sample]++
			if i*c.WorldSize+c.Rank < c.Length {
				firstRound = append(firstRound, sample)
			}
		}
	}
	slices.Sort(firstRound)
	if len(slices.Compact(slices.Clone(firstRound))) != len(firstRound) {
		t.Fatalf("%+v: shards overlap before padding: %v", c, firstRound)
	}
	if c.DropLast {
		if want := c.Length - c.Length%c.WorldSize; len(firstRound) != want {
			t.Fatalf("%+v: %d samples used, want %d", c, len(firstRound), want)
		}
		return
	}
	bound := 1
	if c.Length > 0 {
		bound = (mustNew(t, c).TotalSize() + c.Length - 1) / c.Length
	}
	for sample, count := range seen {
		if count < 1 || count > bound {
			t.Fatalf("%+v: sample %d comes %d times, bound %d", c, sample, count, bound)
		}
	}
}

func TestShardProperties(t *testing.T) {
	for n := range 40 {
		for world := 1; world <= 9; world++ {
			for flags := range 4 {
				c := Config{Length: n, WorldSize: world, Shuffle: flags&1 != 0, DropLast: flags&2 != 0, Seed: int64(n * 7)}
				checkShards(t, c, n%3)
			}
		}
	}
}

func FuzzShardProperties(f *testing.F) {
	f.Add(uint16(10), uint8(4), int64(0), uint8(1), true, false)
	f.Add(uint16(3), uint8(200), int64(-9), uint8(0), false, false)
	f.Add(uint16(1000), uint8(7), int64(1)<<40, uint8(250), true, true)
	f.Fuzz(func(t *testing.T, n uint16, world uint8, seed int64, epoch uint8, shuffle, drop bool) {
		c := Config{Length: int(n) % 3000, WorldSize: int(world)%64 + 1, Seed: seed, Shuffle: shuffle, DropLast: drop}
		checkShards(t, c, int(epoch))
	})
}

func TestOddSizes(t *testing.T) {
	for _, c := range []struct {
		n, world int
		drop     bool
		want     [][]int
	}{
		{5, 2, false, [][]int{{0, 2, 4}, {1, 3, 0}}},
		{5, 2, true, [][]int{{0, 2}, {1, 3}}},
		{3, 7, false, [][]int{{0}, {1}, {2}, {0}, {1}, {2}, {0}}},
		{1, 4, false, [][]int{{0}, {0}, {0}, {0}}},
		{3, 4, true, [][]int{{}, {}, {}, {}}},
		{0, 2, false, [][]int{{}, {}}},
	} {
		for rank, want := range c.want {
			s := mustNew(t, Config{Length: c.n, WorldSize: c.world, Rank: rank, DropLast: c.drop})
			if got := s.Indices(0); !slices.Equal(got, want) {
				t.Errorf("n %d world %d drop_last %t rank %d: got %v, want %v", c.n, c.world, c.drop, rank, got, want)
			}
		}
	}
}

func TestEpochsDifferAndRepeat(t *testing.T) {
	s := mustNew(t, Config{Length: 10, WorldSize: 3, Shuffle: true, Seed: 3})
	if !slices.Equal(s.Indices(0), s.Indices(0)) {
		t.Error("epoch 0 is not the same twice")
	}
	if slices.Equal(s.Indices(0), s.Indices(1)) {
		t.Error("epoch 1 has the order of epoch 0")
	}
}

// The global order, put together again from the ranks, is the same permutation
// whatever the world size.
func TestWorldSizeDoesNotChangeTheOrder(t *testing.T) {
	const n = 101
	want := RandPerm(n, 5+2)
	for _, world := range []int{1, 2, 3, 7, 100, 101, 150} {
		global := make([]int, n)
		order := mustNew(t, Config{Length: n, WorldSize: world, Shuffle: true, Seed: 5}).Order(2, 0)
		for rank := range world {
			place := rank
			for sample := range order.Rank(rank) {
				if place < n {
					global[place] = sample
				}
				place += world
			}
		}
		if !slices.Equal(global, want) {
			t.Errorf("world %d: got %v", world, global)
		}
	}
}

func TestRemainingContinues(t *testing.T) {
	for _, drop := range []bool{false, true} {
		for n := range 30 {
			for world := 1; world <= 5; world++ {
				s := mustNew(t, Config{Length: n, WorldSize: world, Rank: world - 1, Shuffle: true, DropLast: drop})
				whole := s.Indices(1)
				for done := 0; done <= len(whole); done++ {
					if got := s.Remaining(1, done*world); !slices.Equal(got, whole[done:]) {
						t.Fatalf("n %d world %d drop %t after %d: got %v, want %v", n, world, drop, done, got, whole[done:])
					}
				}
			}
		}
	}
}

// A run of 2 ranks stops after 4 steps of 3 samples; 1, 3 or 5 ranks go on.
func TestRemainingWithAnotherWorld(t *testing.T) {
	const n, consumed = 50, 2 * 4 * 3
	for _, world := range []int{1, 3, 5} {
		seen := make(map[int]int)
		for rank := range 2 {
			for _, sample := range mustNew(t, Config{Length: n, WorldSize: 2, Rank: rank, Shuffle: true}).Indices(0)[:consumed/2] {
				seen[sample]++
			}
		}
		for rank := range world {
			for _, sample := range mustNew(t, Config{Length: n, WorldSize: world, Rank: rank, Shuffle: true}).Remaining(0, consumed) {
				seen[sample]++
			}
		}
		twice := 0
		for sample := range n {
			if seen[sample] == 0 {
				t.Errorf("world %d: sample %d is missed", world, sample)
			}
			twice += seen[sample] - 1
		}
		if twice >= world {
			t.Errorf("world %d: %d samples come twice", world, twice)
		}
	}
}

func TestRemainingOutsideTheEpoch(t *testing.T) {
	s := mustNew(t, Config{Length: 5, WorldSize: 2})
	if got := s.Remaining(0, -3); !slices.Equal(got, s.Indices(0)) {
		t.Errorf("less than nothing: %v", got)
	}
	for _, consumed := range []int{5, 6, math.MaxInt} {
		if got := s.Remaining(0, consumed); len(got) != 0 {
			t.Errorf("consumed %d: %v", consumed, got)
		}
	}
	for _, rank := range []int{-1, 2} {
		for sample := range s.Order(0, 0).Rank(rank) {
			t.Errorf("rank %d has sample %d", rank, sample)
		}
	}
}

func TestEvalIndicesCountEachSampleOnce(t *testing.T) {
	for n := range 30 {
		for world := 1; world <= 9; world++ {
			var all []int
			for rank := range world {
				own := EvalIndices(n, world, rank)
				for i, sample := range own {
					if sample != rank+i*world {
						t.Fatalf("n %d world %d rank %d: %v", n, world, rank, own)
					}
				}
				all = append(all, own...)
			}
			slices.Sort(all)
			for i, sample := range all {
				if sample != i || len(all) != n {
					t.Fatalf("n %d world %d: union %v", n, world, all)
				}
			}
		}
	}
	for _, bad := range [][3]int{{5, 0, 0}, {5, 2, 2}, {5, 2, -1}, {-1, 2, 0}} {
		if got := EvalIndices(bad[0], bad[1], bad[2]); len(got) != 0 {
			t.Errorf("EvalIndices(%v) = %v", bad, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{Length: -1, WorldSize: 1},
		{Length: math.MaxInt, WorldSize: 1},
		{Length: 1, WorldSize: 0},
		{Length: 1, WorldSize: -2},
		{Length: 1, WorldSize: math.MaxInt},
		{Length: 1, WorldSize: 2, Rank: 2},
		{Length: 1, WorldSize: 2, Rank: -1},
	} {
		if s, err := New(c); err == nil || s != nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// An unshuffled epoch costs no memory, whatever its length.
func TestUnshuffledOrderIsFree(t *testing.T) {
	o := mustNew(t, Config{Length: maxLength, WorldSize: 3}).Order(0, 0)
	for sample := range o.Rank(2) {
		if sample != 2 {
			t.Fatalf("first sample %d", sample)
		}
		break
	}
	if o.narrow != nil || o.wide != nil || o.Len() != (maxLength+2)/3 {
		t.Error("the order holds a list")
	}
}

func ExampleSampler() {
	for rank := range 2 {
		s, err := New(Config{Length: 5, WorldSize: 2, Rank: rank})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rank, s.Indices(0))
	}
	// Output:
	// 0 [0 2 4]
	// 1 [1 3 0]
}
