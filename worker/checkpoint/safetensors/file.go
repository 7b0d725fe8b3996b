package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// File is an open file. Its methods may be called by several goroutines at a
// time, but none during or after Close.
//
// Errors of Open and of the methods name the file and what is wrong in it, and
// have the exit class of a refused checkpoint.
type File struct {
	path   string
	f      *os.File
	start  int64 // of the data
	header header
	index  map[string]int // name to entry
}

// Open reads and checks the header of a file; tensors are read on demand.
func Open(path string) (*File, error) {
	// Asked before opening: opening a pipe would wait for a writer.
	if st, err := os.Stat(path); err != nil {
		return nil, exitcode.With(err, exitcode.Checkpoint)
	} else if !st.Mode().IsRegular() {
		return nil, refuse(path, errors.New("is not a regular file"))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, exitcode.With(err, exitcode.Checkpoint)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close() // only read from
		return nil, exitcode.With(err, exitcode.Checkpoint)
	}
	file, err := newFile(path, f, st.Size())
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	file.f = f
	return file, nil
}

// newFile reads the header from the first bytes of a file of size bytes.
func newFile(path string, r io.ReaderAt, size int64) (*File, error) {
	text, err := readHeader(r, size)
	if err != nil {
		return nil, refuse(path, err)
	}
	start := 8 + int64(len(text))
	h, err := parseHeader(text, size-start)
	if err != nil {
		return nil, refuse(path, err)
	}
	index := make(map[string]int, len(h.entries))
	for i, e := range h.entries {
		index[e.name] = i
	}
	return &File{path: path, start: start, header: h, index: index}, nil
}

// readHeader returns the JSON of the header. Its length is believed only when
// the file has that many bytes.
func readHeader(r io.ReaderAt, size int64) ([]byte, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fmt.Errorf("the file has %d bytes, too few for the header's length (8 bytes): empty or cut", size)
	}
	if err := readFull(r, prefix[:], 0); err != nil {
		return nil, fmt.Errorf("read the header's length: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	switch {
	case length > maxHeader:
		return nil, fmt.Errorf("the header claims %d bytes, more than the %d allowed: not a safetensors file?", length, maxHeader)
	case length > uint64(size)-8:
		return nil, fmt.Errorf("the header claims %d bytes, but only %d follow: the file is cut", length, size-8)
	case length < 2:
		return nil, fmt.Errorf("the header claims %d bytes, too few for any header", length)
	}
	text := make([]byte, length)
	if err := readFull(r, text, 8); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	return text, nil
}

// readFull fills p; the end of the file in it is an error.
func readFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the file ends at byte %d, %d bytes early: cut while open", offset+int64(n), len(p)-n)
	}
	return err
}

func refuse(path string, err error) error {
	return exitcode.With(fmt.Errorf("%s: %w", path, err), exitcode.Checkpoint)
}

// Path is the name the file was opened by.
func (f *File) Path() string { return f.path }

// Names lists the tensors in the order of their data.
func (f *File) Names() []string {
	names := make([]string, len(f.header.entries))
	for i, e := range f.header.entries {
		names[i] = e.name
	}
	return names
}

// Metadata is a copy of the free-form notes in the header.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Info tells type, shape and size of a tensor; false when there is none of
// that name.
func (f *File) Info(name string) (Info, bool) {
	i, ok := f.index[name]
	if !ok {
		return Info{}, false
	}
	info := f.header.entries[i].info
	info.Shape = slices.Clone(info.Shape)
	return info, true
}

// Read returns the bytes of a tensor as they are in the file.
func (f *File) Read(name string) ([]byte, error) {
	e, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	// No larger than the file: checked when the header was read.
	data := make([]byte, e.info.Bytes)
	return data, f.readInto(data, e)
}

func (f *File) entry(name string) (entry, error) {
	i, ok := f.index[name]
	if !ok {
		return entry{}, refuse(f.path, fmt.Errorf("there is no tensor %q (the file has %d)", name, len(f.index)))
	}
	return f.header.entries[i], nil
}

func (f *File) readInto(data []byte, e entry) error {
	if err := readFull(f.f, data, f.start+e.begin); err != nil {
		return refuse(f.path, fmt.Errorf("read tensor %q: %w", e.name, err))
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
