package data

import (
	"fmt"
)

// reader gives the tokens of a run of text: dst is filled from token at.
type reader interface {
	tokens(dst []int32, at int64) error
}

// blocks cuts a run of tokens into samples: sample i begins at token i*block
// and is block+1 long, the inputs being all but its last token and the targets
// all but its first.
type blocks struct {
	reader
	path    string
	block   int
	samples int
	check   func(classes int) error
}

// newBlocks counts the samples of length tokens.
func newBlocks(path string, r reader, length int64, block int, check func(int) error) (*blocks, error) {
	if block < 1 {
		return nil, fmt.Errorf("data.block: must be at least 1 token")
	}
	n := (length - 1) / int64(block)
	if n < 1 {
		return nil, fmt.Errorf("%s: has %d tokens, one sample takes %d (data.block %d, and one more for the last target)", path, length, block+1, block)
	}
	return &blocks{reader: r, path: path, block: block, samples: int(n), check: check}, nil
}

func (b *blocks) Len() int                       { return b.samples }
func (b *blocks) Spec() Spec                     { return Spec{Tokens: b.block} }
func (b *blocks) CheckClasses(classes int) error { return b.check(classes) }

func (b *blocks) Read(i int, _ []float32, tokens, y []int32) error {
	at := int64(i) * int64(b.block)
	if err := b.tokens(tokens, at); err != nil {
		return err
	}
	// The targets are the inputs moved by one: only the last is new.
	copy(y, tokens[1:])
	return b.tokens(y[b.block-1:], at+int64(b.block))
}
