package data

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/job"
)

// text is a file in memory whose bytes are the tokens.
type text []byte

func (t text) tokens(dst []int32, at int64) error {
	for i, b := range t[at : at+int64(len(dst))] {
		dst[i] = int32(b)
	}
	return nil
}

func openBytes(d *job.Data) (*Sets, error) {
	all, err := readText(d.Path, d.Block)
	if err != nil {
		return nil, err
	}
	s := &Sets{}
	if s.Train, s.Eval, err = split(d, d.Path, all); err != nil || d.EvalPath == "" {
		return s, err
	}
	eval, err := readText(d.EvalPath, d.Block)
	if err != nil {
		return nil, err
	}
	s.Eval, err = rows("data.eval_rows", d.EvalRows, d.EvalPath, eval)
	return s, err
}

func readText(path string, block int) (*blocks, error) {
	b, err := readAll(path)
	if err != nil {
		return nil, err
	}
	check := func(classes int) error {
		if classes >= 256 {
			return nil
		}
		for i, c := range b {
			if int(c) >= classes {
				return fmt.Errorf("%s: byte %d has the value %d, the model knows tokens 0 to %d (model.vocab)", path, i, c, classes-1)
			}
		}
		return nil
	}
	return newBlocks(path, text(b), int64(len(b)), block, check)
}
