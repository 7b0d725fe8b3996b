package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// maxFile is the size in bytes up to which a file is believed to be a job file.
// The YAML parser takes some 400 times as much memory for the worst of them.
const maxFile = 256 << 10

// Load reads a job file, applies overrides of the form key.path=value, fills in
// defaults and checks everything that can be checked without opening another
// file. Whatever is wrong with the job comes back together as Problems.
// Paths in the result are absolute.
func Load(path string, overrides []string) (*Job, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("job: the current folder cannot be found: %w", err), exitcode.Machine)
	}
	abs := path
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(cwd, abs)
	}
	s := &source{name: path, dir: filepath.Dir(abs), cwd: cwd, sets: overrides}
	text, err := readFile(path)
	if err != nil {
		return nil, Problems{s.at(0, 0, "%v", err)}
	}
	j, ps := s.load(text)
	if len(ps) > 0 {
		return nil, s.report(ps)
	}
	return j, nil
}

// readFile reads a file of bounded size, and nothing that could block.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("no such file")
	case err != nil:
		return nil, withoutPath(err)
	case info.IsDir():
		return nil, errors.New("is a folder, a job file is wanted")
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is %s, a job file must be a regular file", kindOf(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("is larger than %d bytes: not a job file", maxFile)
	}
	return text, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// withoutPath takes off what the place of a problem says already.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// load is Load for a text.
func (s *source) load(text []byte) (*Job, Problems) {
	s.origin = map[*yaml.Node]int{}
	root, ps := s.parse(text)
	if root == nil {
		return nil, ps
	}
	ps = append(ps, s.override(root)...)
	d := newDecoder(s, root)
	j := newJob()
	schema := jobSection(j, kindOfJob(root))
	schema.decode(d, root, "")
	if j.Name == "" {
		j.Name = nameFrom(s.name)
	}
	d.check(j)
	d.reportUnknown(schema)
	return j, append(ps, d.problems...)
}

// kindOfJob says what a job is for before anything else of it is read. A file
// with both a program and a model is a training job with one key too many.
func kindOfJob(root *yaml.Node) string {
	if child(root, "program") == nil {
		return training
	}
	return launching
}
