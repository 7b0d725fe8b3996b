package ddp

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func f32(numels ...int) []Entry {
	var es []Entry
	for _, n := range numels {
		es = append(es, Entry{Bytes: 4 * n, DType: "float32"})
	}
	return es
}

// The layouts are those of torch 1.13's own assignment function.
func TestAssignMatchesTorch(t *testing.T) {
	const mib = 1 << 20
	gpt := []int{3216448, 65536, 64, 64, 12288, 192, 4096, 64, 64, 64, 16384, 256, 16384, 64}
	mixed := func(n int) []Entry {
		es := f32(n, n, n, n, n)
		es[1] = Entry{Bytes: 2 * n, DType: "float16"}
		es[3] = es[1]
		return es
	}
	three := f32(10, 10, 10)
	three[1] = Entry{Bytes: 20, DType: "float16"}
	for _, c := range []struct {
		name    string
		entries []Entry
		limits  Limits
		want    [][]int
	}{
		{"first small", f32(100, 300000, 10, 200, 7000000, 5), Limits{mib, 25 * mib}, [][]int{{0, 1}, {2, 3, 4}, {5}}},
		{"one limit", f32(100, 300000, 10, 200, 7000000, 5), Limits{25 * mib}, [][]int{{0, 1, 2, 3, 4}, {5}}},
		{"tiny limits", f32(gpt...), Limits{65536, 131072}, [][]int{{0}, {1}, {2, 3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13}}},
		{"default limits", f32(gpt...), Limits{mib, 25 * mib}, [][]int{{0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}},
		{"two types", mixed(100), Limits{400, 800}, [][]int{{0}, {1, 3}, {2, 4}}},
		{"two types, larger", mixed(100), Limits{500, 1000}, [][]int{{0, 2}, {1, 3}, {4}}},
		{"three", three, Limits{40, 100}, [][]int{{0}, {1}, {2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Assign(c.entries, c.limits); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAssignProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		entries := make([]Entry, rng.IntN(40))
		for i := range entries {
			entries[i] = Entry{Bytes: 1 + rng.IntN(1000), DType: []string{"float32", "float16"}[rng.IntN(2)]}
		}
		limits := Limits{1 + rng.IntN(500), 1 + rng.IntN(2000)}
		buckets := Assign(entries, limits)
		seen := make([]int, len(entries))
		lastOf := map[string]int{}
		nth := map[string]int{}
		for k, b := range buckets {
			lastOf[entries[b[0]].DType] = k
		}
		for k, b := range buckets {
			bytes := 0
			dtype := entries[b[0]].DType
			for _, i := range b {
				seen[i]++
				bytes += entries[i].Bytes
				if entries[i].DType != dtype {
					t.Fatalf("bucket %v mixes types", b)
				}
			}
			limit := limits[min(nth[dtype], 1)]
			nth[dtype]++
			if k != lastOf[dtype] && bytes < limit {
				t.Fatalf("bucket %v has %d bytes, closed before its limit %d", b, bytes, limit)
			}
			if before := bytes - entries[b[len(b)-1]].Bytes; before >= limit {
				t.Fatalf("bucket %v had reached its limit %d before its last entry", b, limit)
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("entry %d is in %d buckets", i, n)
			}
		}
	}
}
