package checkpoint

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// fsys is every change of the file system that saving makes, one method each,
// so that tests can fail or stop after any of them.
type fsys interface {
	mkdir(path string) error
	create(path string) (syncFile, error)
	// lock marks a folder as in use until the closer is closed or the process
	// dies. errors.ErrUnsupported: the file system has no locks.
	lock(folder string) (io.Closer, error)
	syncDir(path string) error
	rename(from, to string) error
	// exchange swaps two names in one step. errors.ErrUnsupported: the file
	// system cannot.
	exchange(a, b string) error
	removeAll(path string) error
}

// syncFile is a file being written.
type syncFile interface {
	io.Writer
	Sync() error
	Close() error
}

// osFS is the real file system. Modes leave group and others without the right
// to write, whatever the umask.
type osFS struct{}

func (osFS) mkdir(path string) error { return os.Mkdir(path, 0o755) }

func (osFS) create(path string) (syncFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// syncDir makes the names in a folder durable. File systems that cannot sync a
// folder say EINVAL or ENOTSUP; they have no better to offer.
func (osFS) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

func (osFS) rename(from, to string) error { return os.Rename(from, to) }

func (osFS) removeAll(path string) error { return os.RemoveAll(path) }

// errLocked: another process, or another save of this one, holds the lock.
var errLocked = errors.New("in use by a writer")
