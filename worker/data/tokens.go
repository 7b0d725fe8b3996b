package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/ddprun/ddprun/internal/job"
)

// Header of a token file: int32 values, little endian, as llm.c writes it.
const (
	tokenMagic   = 20240520
	tokenVersion = 1
	tokenHeader  = 1024 // bytes
)

// tokenFile is one file of tokens. It is read piece by piece, not mapped: a
// file that shrinks under a running job must be an error, not a fault.
type tokenFile struct {
	path  string
	f     io.ReaderAt
	skip  int64 // bytes before the first token
	width int   // bytes of a token
	count int64
	first int64 // place of its first token among those of all files
	limit *int32
}

// tokenFiles is files one behind the other.
type tokenFiles []*tokenFile

func (fs tokenFiles) tokens(dst []int32, at int64) error {
	i := sort.Search(len(fs), func(i int) bool { return fs[i].first > at }) - 1
	for len(dst) > 0 {
		f := fs[i]
		n := min(int64(len(dst)), f.first+f.count-at)
		if err := f.read(dst[:n], at-f.first); err != nil {
			return err
		}
		dst, at, i = dst[n:], at+n, i+1
	}
	return nil
}

func (f *tokenFile) read(dst []int32, at int64) error {
	raw := make([]byte, len(dst)*f.width)
	if n, err := f.f.ReadAt(raw, f.skip+at*int64(f.width)); n < len(raw) {
		if errors.Is(err, io.EOF) {
			return refuse(fmt.Errorf("%s: has shrunk while it was read: wanted %d bytes at %d, found %d", f.path, len(raw), f.skip+at*int64(f.width), n))
		}
		return refuse(fmt.Errorf("%s: %w", f.path, plain(err)))
	}
	for i := range dst {
		if f.width == 2 {
			dst[i] = int32(binary.LittleEndian.Uint16(raw[2*i:]))
		} else {
			dst[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		if v := dst[i]; v < 0 || v >= *f.limit {
			return refuse(fmt.Errorf("%s: token %d has the value %d, the model knows tokens 0 to %d (model.vocab)", f.path, at+int64(i), uint32(v), *f.limit-1))
		}
	}
	return nil
}

func openTokens(d *job.Data) (*Sets, error) {
	s := &Sets{}
	all, err := openTokenSet(d, d.Path, s)
	if err == nil {
		s.Train, s.Eval, err = split(d, d.Path, all)
	}
	if err == nil && d.EvalPath != "" {
		var eval *blocks
		if eval, err = openTokenSet(d, d.EvalPath, s); err == nil {
			s.Eval, err = rows("data.eval_rows", d.EvalRows, d.EvalPath, eval)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openTokenSet opens the files that a pattern names, in the order of their
// names, as one run of tokens.
func openTokenSet(d *job.Data, pattern string, s *Sets) (*blocks, error) {
	paths, err := tokenPaths(pattern)
	if err != nil {
		return nil, err
	}
	limit := int32(1<<31 - 1)
	var files tokenFiles
	total := int64(0)
	for _, path := range paths {
		f, err := openTokenFile(path, d.DType)
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, f.f.(*os.File).Close)
		f.first, f.limit = total, &limit
		total += f.count
		files = append(files, f)
	}
	check := func(classes int) error {
		limit = int32(classes)
		return files.checkAll()
	}
	return newBlocks(pattern, files, total, d.Block, check)
}

// checkAtStart is how many tokens are looked at before the first step; those
// behind are checked as they are read.
const checkAtStart = 64 << 20

func (fs tokenFiles) checkAll() error {
	buf := make([]int32, 1<<16)
	seen := int64(0)
	for _, f := range fs {
		for at := int64(0); at < f.count && seen < checkAtStart; {
			n := min(int64(len(buf)), f.count-at)
			if err := f.read(buf[:n], at); err != nil {
				return err
			}
			at, seen = at+n, seen+n
		}
	}
	return nil
}

func tokenPaths(pattern string) ([]string, error) {
	if _, err := os.Lstat(pattern); err == nil || !hasMeta(pattern) {
		return []string{pattern}, nil
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("data.path: %s: %w", pattern, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no file matches the pattern", pattern)
	}
	slices.Sort(paths)
	return paths, nil
}

func hasMeta(pattern string) bool {
	return slices.ContainsFunc([]byte(pattern), func(b byte) bool { return b == '*' || b == '?' || b == '[' })
}

// openTokenFile checks the size of a file against its header, or, where the
// job gives a type, takes the whole file as tokens of that type.
func openTokenFile(path, dtype string) (*tokenFile, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	t := &tokenFile{path: path, f: f}
	if dtype == "" {
		err = t.header(size)
	} else {
		err = t.headerless(size, dtype)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *tokenFile) headerless(size int64, dtype string) error {
	t.width = 2
	if dtype == "uint32" {
		t.width = 4
	}
	if size == 0 {
		return fmt.Errorf("%s: the file is empty", t.path)
	}
	if size%int64(t.width) != 0 {
		return fmt.Errorf("%s: its %d bytes are no whole number of %s tokens", t.path, size, dtype)
	}
	t.count = size / int64(t.width)
	return nil
}

func (t *tokenFile) header(size int64) error {
	t.skip, t.width = tokenHeader, 2
	if size == 0 {
		return fmt.Errorf("%s: the file is empty", t.path)
	}
	if size < tokenHeader {
		return fmt.Errorf("%s: has %d bytes, the header alone takes %d (a file without one needs data.dtype)", t.path, size, tokenHeader)
	}
	var raw [12]byte
	if _, err := t.f.ReadAt(raw[:], 0); err != nil {
		return fmt.Errorf("%s: %w", t.path, plain(err))
	}
	count, err := parseTokenHeader(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.count = count
	if want := tokenHeader + 2*t.count; size != want {
		return fmt.Errorf("%s: its header says %d tokens, which makes %d bytes, but it has %d", t.path, t.count, want, size)
	}
	return nil
}

func parseTokenHeader(raw [12]byte) (count int64, err error) {
	magic := int32(binary.LittleEndian.Uint32(raw[0:]))
	version := int32(binary.LittleEndian.Uint32(raw[4:]))
	n := int32(binary.LittleEndian.Uint32(raw[8:]))
	switch {
	case magic != tokenMagic:
		return 0, fmt.Errorf("not a token file: begins with %d, wanted %d (a file without a header needs data.dtype)", magic, tokenMagic)
	case version != tokenVersion:
		return 0, fmt.Errorf("token file of version %d, only version %d is read", version, tokenVersion)
	case n < 0:
		return 0, fmt.Errorf("its header says %d tokens", n)
	}
	return int64(n), nil
}
