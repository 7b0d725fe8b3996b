package data

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/job"
)

// text is a file in memory whose bytes are the tokens.
type text struct {
	path string
	b    []byte
}

func (t *text) tokens(in, out []int32, at int64) error {
	b := t.b[at : at+int64(len(in))+1]
	for i := range in {
		in[i], out[i] = int32(b[i]), int32(b[i+1])
	}
	return nil
}

func (t *text) check(classes int) error {
	if classes >= 256 {
		return nil
	}
	for i, c := range t.b {
		if int(c) >= classes {
			return fmt.Errorf("%s has the value %d, the model knows tokens 0 to %d (model.vocab)", t.where(int64(i)), c, classes-1)
		}
	}
	return nil
}

func (t *text) where(at int64) string { return fmt.Sprintf("%s: byte %d", t.path, at) }

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
	return newBlocks(path, &text{path, b}, int64(len(b)), block, "bytes")
}
