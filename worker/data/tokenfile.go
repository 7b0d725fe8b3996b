package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Header of a token file: int32 values, little endian, as llm.c writes it
// (dev/data/data_common.py).
const (
	tokenMagic   = 20240520
	tokenVersion = 1
	tokenHeader  = 1024 // bytes
)

// tokenFile is one file of tokens.
type tokenFile struct {
	path  string
	r     io.ReaderAt
	close func() error
	skip  int64 // bytes before the first token
	count int64
	first int64 // place of its first token in the run
}

// tokenPaths are the files that a pattern names, sorted. A file whose very
// name is the pattern comes first.
func tokenPaths(pattern string) ([]string, error) {
	if _, err := os.Lstat(pattern); err == nil || !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}, nil
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no file matches the pattern", pattern)
	}
	slices.Sort(paths)
	return paths, nil
}

// openTokenFile checks the size of a file against its header, or, where the
// job gives a type, takes the whole file as tokens of that type.
func openTokenFile(path, dtype string) (*tokenFile, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	t := &tokenFile{path: path, r: f, close: f.Close}
	if err := t.measure(size, dtype); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return t, nil
}

func (t *tokenFile) measure(size int64, dtype string) (err error) {
	switch {
	case size == 0:
		return errors.New("the file is empty")
	case dtype != "":
		t.count, err = headerless(size, dtype)
		return err
	case size < tokenHeader:
		return fmt.Errorf("has %d bytes, the header alone takes %d (a file without one needs data.dtype)", size, tokenHeader)
	}
	var head [12]byte
	if _, err := t.r.ReadAt(head[:], 0); err != nil {
		return plain(err)
	}
	t.skip = tokenHeader
	t.count, err = tokenCount(head, size)
	return err
}

func headerless(size int64, dtype string) (int64, error) {
	width := int64(2)
	if dtype == "uint32" {
		width = 4
	}
	if size%width != 0 {
		return 0, fmt.Errorf("its %d bytes are no whole number of %s tokens", size, dtype)
	}
	return size / width, nil
}

// tokenCount reads the header of a file of size bytes. The count is taken as
// unsigned where the size agrees: writers that know nothing of the limit of
// int32 leave its bits as they are.
func tokenCount(head [12]byte, size int64) (int64, error) {
	magic := int32(binary.LittleEndian.Uint32(head[0:]))
	version := int32(binary.LittleEndian.Uint32(head[4:]))
	count := binary.LittleEndian.Uint32(head[8:])
	want := tokenHeader + 2*int64(count)
	switch {
	case isGzip(head[:]):
		return 0, errors.New("is packed with gzip; unpack it, tokens are read from places all over the file")
	case magic != tokenMagic:
		return 0, fmt.Errorf("not a token file: begins with %d, wanted %d (a file without a header needs data.dtype)", magic, tokenMagic)
	case version != tokenVersion:
		return 0, fmt.Errorf("a token file of version %d, only version %d is read", version, tokenVersion)
	case size == want:
		return int64(count), nil
	case count > math.MaxInt32:
		return 0, fmt.Errorf("its header says %d tokens; it has %d bytes, %d of them behind the header", int32(count), size, size-tokenHeader)
	}
	return 0, fmt.Errorf("its header says %d tokens, which makes %d bytes, but it has %d", count, want, size)
}
