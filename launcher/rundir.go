package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Modes of what a run leaves behind: readable for all, writable for the owner.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// runDir is the folder of one run. Everything is opened below an os.Root, so a
// link that leads out of the log folder is refused, not followed.
type runDir struct {
	path string // absolute
	root *os.Root
	lock *os.File
	next int // attempt number that was never used
}

func openRunDir(logDir, id string) (*runDir, error) {
	abs, err := filepath.Abs(logDir)
	if err != nil {
		return nil, dirError(logDir, err)
	}
	if err := os.MkdirAll(abs, dirMode); err != nil {
		return nil, dirError(abs, err)
	}
	parent, err := os.OpenRoot(abs)
	if err != nil {
		return nil, dirError(abs, err)
	}
	defer parent.Close()
	path := filepath.Join(abs, id)
	if err := parent.Mkdir(id, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, dirError(path, err)
	}
	root, err := parent.OpenRoot(id)
	if err != nil {
		return nil, dirError(path, err)
	}
	d := &runDir{path: path, root: root}
	if err := d.prepare(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// prepare takes the folder for this launcher and finds the first free attempt.
func (d *runDir) prepare() error {
	lock, err := d.root.Open(".")
	if err != nil {
		return dirError(d.path, err)
	}
	d.lock = lock
	// Freed by the kernel when the launcher ends, however it ends. File systems
	// that cannot lock are believed to be unshared.
	if errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return exitcode.With(fmt.Errorf("run directory %s: another launcher is running this run id; choose another --rdzv-id or wait", d.path), exitcode.Machine)
	}
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return dirError(d.path, err)
	}
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), "attempt-"); ok {
			if n, err := strconv.Atoi(text); err == nil && n >= d.next {
				d.next = n + 1
			}
		}
	}
	return nil
}

// attempt makes the folder of the next attempt and returns its number. Earlier
// attempts are never touched.
func (d *runDir) attempt() (int, error) {
	n := d.next
	if err := d.root.Mkdir(attemptName(n), dirMode); err != nil {
		return 0, dirError(filepath.Join(d.path, attemptName(n)), err)
	}
	d.next++
	return n, nil
}

func attemptName(n int) string { return "attempt-" + strconv.Itoa(n) }

func rankName(attempt, rank int) string {
	return filepath.Join(attemptName(attempt), "rank-"+strconv.Itoa(rank))
}

func (d *runDir) rank(attempt, rank int) error {
	name := rankName(attempt, rank)
	if err := d.root.Mkdir(name, dirMode); err != nil {
		return dirError(filepath.Join(d.path, name), err)
	}
	return nil
}

// create opens a new file of a rank.
func (d *runDir) create(name string) (*os.File, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, dirError(filepath.Join(d.path, name), err)
	}
	return f, nil
}

// replace writes a whole file under a temporary name first, so that nobody
// reads half of it.
func (d *runDir) replace(name string, data []byte) error {
	tmp := name + ".tmp"
	f, err := d.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return dirError(filepath.Join(d.path, name), err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.root.Rename(tmp, name)
	}
	if err != nil {
		_ = d.root.Remove(tmp)
		return dirError(filepath.Join(d.path, name), err)
	}
	return nil
}

func (d *runDir) close() {
	if d.lock != nil {
		_ = d.lock.Close()
	}
	_ = d.root.Close()
}

// dirError says which folder or file cannot be used and why, without naming it
// twice.
func dirError(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return exitcode.With(fmt.Errorf("run directory: cannot use %s: %w (--log-dir chooses another place)", path, err), exitcode.Machine)
}
