package data

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// openRegular opens a file that must be a regular one: a FIFO or a device
// would block, a folder cannot be read.
func openRegular(path string) (*os.File, int64, error) {
	if path == "" {
		return nil, 0, errors.New("data.path: no file is named")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, lerr := os.Lstat(path); lerr == nil {
			return nil, 0, fmt.Errorf("%s: a link to a file that does not exist", path)
		}
		return nil, 0, fmt.Errorf("%s: no such file", path)
	case err != nil:
		return nil, 0, fmt.Errorf("%s: %w", path, plain(err))
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s: a folder, a file is wanted", path)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: not a regular file (%s)", path, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, plain(err))
	}
	return f, info.Size(), nil
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
	zip  *gzip.Reader
}

func openStream(path string) (*stream, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		f.Close()
		return nil, fmt.Errorf("%s: the file is empty", path)
	}
	s := &stream{path: path, file: f}
	in := bufio.NewReaderSize(f, 1<<16)
	s.Reader = in
	// The first two bytes tell, not the name (RFC 1952).
	if head, err := in.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		if s.zip, err = gzip.NewReader(in); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: begins like gzip, but is not: %w", path, err)
		}
		s.Reader = s.zip
	}
	return s, nil
}

// broken says what is wrong when reading failed.
func (s *stream) broken(err error) error {
	if s.zip != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum)) {
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
	b, err := io.ReadAll(s)
	if err != nil {
		return nil, s.broken(err)
	}
	return b, nil
}
