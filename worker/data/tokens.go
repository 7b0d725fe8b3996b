package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"sync"

	"github.com/ddprun/ddprun/internal/job"
)

// tokenRun is files of tokens one behind the other. They are read piece by
// piece, not mapped: a file that shrinks under a running job must be an error,
// not a fault.
type tokenRun struct {
	files []*tokenFile
	width int   // bytes of a token
	count int64 // tokens in all files
	limit int32 // tokens are below it; set before samples are read
	raw   sync.Pool
}

func openTokens(d *job.Data) (*Sets, error) {
	s := &Sets{}
	all, err := openTokenRun(d, d.Path, s)
	if err == nil {
		s.Train, s.Eval, err = split(d, d.Path, all)
	}
	if err == nil && d.EvalPath != "" {
		var eval *blocks
		if eval, err = openTokenRun(d, d.EvalPath, s); err == nil {
			s.Eval, err = rows("data.eval_rows", d.EvalRows, d.EvalPath, eval)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openTokenRun opens the files that a pattern names, in the order of their
// names. They are closed with s.
func openTokenRun(d *job.Data, pattern string, s *Sets) (*blocks, error) {
	paths, err := tokenPaths(pattern)
	if err != nil {
		return nil, err
	}
	run := &tokenRun{width: 2, limit: math.MaxInt32}
	if d.DType == "uint32" {
		run.width = 4
	}
	for _, path := range paths {
		f, err := openTokenFile(path, d.DType)
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, f.close)
		f.first = run.count
		run.count += f.count
		run.files = append(run.files, f)
	}
	return newBlocks(pattern, run, run.count, d.Block, "tokens")
}

func (r *tokenRun) tokens(in, out []int32, at int64) error {
	raw := r.scratch((len(in) + 1) * r.width)
	defer r.raw.Put(raw)
	if err := r.readAt(*raw, at); err != nil {
		return refuse(err)
	}
	if err := r.decode(in, *raw, at); err != nil {
		return refuse(err)
	}
	// The targets are the inputs moved by one: only the last is new.
	last := len(in)
	copy(out, in[1:])
	return refuse(r.decode(out[last-1:], (*raw)[last*r.width:], at+int64(last)))
}

func (r *tokenRun) scratch(n int) *[]byte {
	raw, ok := r.raw.Get().(*[]byte)
	if !ok || cap(*raw) < n {
		b := make([]byte, n)
		return &b
	}
	*raw = (*raw)[:n]
	return raw
}

// readAt fills raw with the tokens from at on.
func (r *tokenRun) readAt(raw []byte, at int64) error {
	width := int64(r.width)
	for i := r.fileOf(at); len(raw) > 0; i++ {
		f := r.files[i]
		n := min(int64(len(raw)), (f.first+f.count-at)*width)
		place := f.skip + (at-f.first)*width
		if got, err := f.r.ReadAt(raw[:n], place); int64(got) < n {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: has shrunk since it was opened: wanted %d bytes at %d, found %d", f.path, n, place, got)
			}
			return fmt.Errorf("%s: at byte %d: %w", f.path, place, plain(err))
		}
		raw, at = raw[n:], at+n/width
	}
	return nil
}

// fileOf is the file that token at is in.
func (r *tokenRun) fileOf(at int64) int {
	return sort.Search(len(r.files), func(i int) bool { return r.files[i].first > at }) - 1
}

// decode makes tokens of the beginning of raw.
func (r *tokenRun) decode(dst []int32, raw []byte, at int64) error {
	for i := range dst {
		v := uint32(0)
		if r.width == 2 {
			v = uint32(binary.LittleEndian.Uint16(raw[2*i:]))
		} else {
			v = binary.LittleEndian.Uint32(raw[4*i:])
		}
		if v >= uint32(r.limit) {
			return fmt.Errorf("%s has the value %d, the model knows tokens 0 to %d (model.vocab)", r.where(at+int64(i)), v, r.limit-1)
		}
		dst[i] = int32(v)
	}
	return nil
}

func (r *tokenRun) where(at int64) string {
	f := r.files[r.fileOf(at)]
	return fmt.Sprintf("%s: token %d", f.path, at-f.first)
}

// checkAtStart is how many tokens are looked at before the first step; those
// behind are checked as they are read.
const checkAtStart = 16 << 20

func (r *tokenRun) check(classes int) error {
	r.limit = int32(min(classes, math.MaxInt32))
	raw, dst := make([]byte, (1<<16)*r.width), make([]int32, 1<<16)
	for at := int64(0); at < min(r.count, checkAtStart); {
		n := min(int64(len(dst)), r.count-at)
		if err := r.readAt(raw[:n*int64(r.width)], at); err != nil {
			return err
		}
		if err := r.decode(dst[:n], raw, at); err != nil {
			return err
		}
		at += n
	}
	return nil
}
