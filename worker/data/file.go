package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// openRegular opens a file that must be a regular one: a FIFO or a device
// would block, a folder cannot be read.
func openRegular(path string) (*os.File, int64, error) {
	if path == "" {
		return nil, 0, errors.New("data.path: no file is named")
	}
	// Looking first keeps devices from being opened at all: some act on it.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, absent(path, err)
	}
	if err := regular(path, info); err != nil {
		return nil, 0, err
	}
	// O_NONBLOCK means nothing to a regular file, and keeps a FIFO that took
	// its place in the meantime from blocking.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, absent(path, err)
	}
	if info, err = f.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// absent says why a file cannot be opened.
func absent(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	if to, lerr := os.Readlink(path); lerr == nil {
		return fmt.Errorf("%s: a link to a file that does not exist, %s", path, to)
	}
	return fmt.Errorf("%s: no such file", path)
}

func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s: a folder, a file is wanted", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %s, not a regular file", path, kindOf(info.Mode()))
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file of another kind"
}

// plain takes operation and path off an error whose text will have them anyway.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// stream reads a file from its beginning, unpacked if it is gzip.
type stream struct {
	io.Reader
	path string
	file *os.File
	size int64 // of the file
	zip  *gzip.Reader
}

func openStream(path string) (*stream, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	s := &stream{path: path, file: f, size: size}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// begin reads the first bytes.
func (s *stream) begin() error {
	if s.size == 0 {
		return fmt.Errorf("%s: the file is empty", s.path)
	}
	in := bufio.NewReaderSize(s.file, 1<<16)
	s.Reader = in
	// The first two bytes tell, not the name (RFC 1952).
	head, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.broken(err)
	}
	if err != nil || !isGzip(head) {
		return nil
	}
	if s.zip, err = gzip.NewReader(in); err != nil {
		return fmt.Errorf("%s: begins like gzip, but is not: %w", s.path, err)
	}
	s.Reader = s.zip
	return nil
}

func isGzip(head []byte) bool { return head[0] == 0x1f && head[1] == 0x8b }

// maxRatio is how many bytes one byte of deflate can become at most: 258 bytes
// take two bits or more (RFC 1951).
const maxRatio = 1032

// bound is the most bytes that can come out of the file, whatever it says of
// itself.
func (s *stream) bound() int64 {
	if s.zip != nil {
		return s.size * maxRatio
	}
	return s.size
}

// guess is how many bytes will probably come out: gzip has their number modulo
// 2^32 at its end.
func (s *stream) guess() int64 {
	if s.zip == nil {
		return s.size
	}
	var tail [4]byte
	if _, err := s.file.ReadAt(tail[:], s.size-4); err != nil {
		return 0
	}
	return min(int64(binary.LittleEndian.Uint32(tail[:])), s.bound())
}

// broken says what is wrong when reading failed.
func (s *stream) broken(err error) error {
	var p *fs.PathError
	if s.zip != nil && !errors.As(err, &p) {
		return fmt.Errorf("%s: the gzip data is cut off or damaged: %w", s.path, err)
	}
	return fmt.Errorf("%s: %w", s.path, plain(err))
}

func (s *stream) Close() error { return s.file.Close() }

// readAll returns the whole contents, unpacked.
func readAll(path string) ([]byte, error) {
	s, err := openStream(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	buf := bytes.NewBuffer(make([]byte, 0, s.guess()+bytes.MinRead))
	if _, err := buf.ReadFrom(s); err != nil {
		return nil, s.broken(err)
	}
	if b := buf.Bytes(); cap(b) > len(b)+len(b)/8+bytes.MinRead {
		return bytes.Clone(b), nil
	}
	return buf.Bytes(), nil
}
