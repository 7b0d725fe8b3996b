package data

import (
	"fmt"
)

// source is a run of tokens: in gets those from at on, out those from at+1 on.
// Both are equally long.
type source interface {
	tokens(in, out []int32, at int64) error
	check(classes int) error
	where(at int64) string
}

// blocks cuts a run of tokens into samples: sample i begins at token i*block
// and is block+1 long, the inputs being all but its last token and the targets
// all but its first.
type blocks struct {
	source
	block   int
	samples int
}

// newBlocks counts the samples in length tokens; unit is what the user calls
// them.
func newBlocks(path string, src source, length int64, block int, unit string) (*blocks, error) {
	if block < 1 {
		return nil, fmt.Errorf("data.block: must be at least 1 token")
	}
	n := (length - 1) / int64(block)
	if n < 1 {
		return nil, fmt.Errorf("%s: has %d %s, one sample takes %d (data.block %d, and one more for the last target)", path, length, unit, block+1, block)
	}
	return &blocks{source: src, block: block, samples: int(n)}, nil
}

func (b *blocks) Len() int                       { return b.samples }
func (b *blocks) Spec() Spec                     { return Spec{Tokens: b.block} }
func (b *blocks) CheckClasses(classes int) error { return b.check(classes) }
func (b *blocks) place(i int) string             { return b.where(int64(i) * int64(b.block)) }

func (b *blocks) Read(i int, _ []float32, tokens, y []int32) error {
	return b.tokens(tokens, y, int64(i)*int64(b.block))
}
