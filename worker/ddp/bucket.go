package ddp

import "slices"

// Limits are the sizes in bytes at which buckets are closed: the first bucket
// at the first, the second at the second, later ones at the last.
type Limits []int

// group is the key that keeps tensors of different types out of one bucket.
type group struct{ dtype, place string }

// Entry is a tensor to be put into a bucket.
type Entry struct {
	Bytes int
	DType string
	Place string
}

// Assign distributes entries over buckets in the order given and returns the
// indices of each bucket's entries. The rule is that of PyTorch's reducer: an
// entry that crosses the limit stays in its bucket, no entry is split, each
// element type and place has buckets and a place in the limits of its own, and
// the buckets are ordered by their first entry.
func Assign(entries []Entry, limits Limits) [][]int {
	type open struct {
		indices []int
		bytes   int
		limit   int
	}
	opened := map[group]*open{}
	var keys []group
	var buckets [][]int
	for i, e := range entries {
		key := group{e.DType, e.Place}
		b := opened[key]
		if b == nil {
			b = &open{}
			opened[key] = b
			keys = append(keys, key)
		}
		b.indices = append(b.indices, i)
		b.bytes += e.Bytes
		if b.bytes >= limits[b.limit] {
			buckets = append(buckets, b.indices)
			b.indices, b.bytes = nil, 0
			b.limit = min(b.limit+1, len(limits)-1)
		}
	}
	for _, key := range keys {
		if b := opened[key]; len(b.indices) > 0 {
			buckets = append(buckets, b.indices)
		}
	}
	slices.SortFunc(buckets, func(a, b []int) int { return a[0] - b[0] })
	return buckets
}
