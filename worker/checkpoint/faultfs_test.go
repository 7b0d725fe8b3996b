package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

var (
	errInjected = errors.New("injected failure")
	errCrashed  = errors.New("the process is gone")
)

// faultMode is what happens at the chosen operation.
type faultMode int

const (
	failOp       faultMode = iota // it has no effect (a write: half of it) and returns an error
	crashOp                       // the process dies right after it
	losePower                     // as crashOp, and everything not synced is lost, but for names
	losePowerAll                  // as losePower, names too
)

func (m faultMode) String() string {
	return [...]string{"fail", "crash", "power loss", "power loss with names"}[m]
}

// faultFS is the real file system with one fault in it. It keeps count of what
// is not durable yet, which a loss of power takes away; it never really syncs.
type faultFS struct {
	at         int // operation with the fault, from 1
	mode       faultMode
	noExchange bool
	noLock     bool

	count   int
	crashed bool
	unsaved map[string]bool // files whose content is not synced
	unnamed map[string]bool // files and folders whose folder is not synced since they were made
	undo    []rename        // renames whose folder is not synced, oldest first
	locks   []io.Closer
}

type rename struct {
	dir, from, to string
	exchange      bool
}

func newFaultFS(at int, mode faultMode) *faultFS {
	return &faultFS{at: at, mode: mode, unsaved: make(map[string]bool), unnamed: make(map[string]bool)}
}

// do runs one operation, or its fault.
func (f *faultFS) do(op func() error) error {
	if f.crashed {
		return errCrashed
	}
	f.count++
	if f.count != f.at {
		return op()
	}
	if f.mode == failOp {
		return errInjected
	}
	if err := op(); err != nil {
		return err
	}
	f.crash()
	return errCrashed
}

func (f *faultFS) crash() {
	f.crashed = true
	f.release()
	if f.mode == crashOp {
		return
	}
	for path := range f.unsaved {
		if st, err := os.Stat(path); err == nil {
			must(os.Truncate(path, st.Size()/2))
		}
	}
	for path := range f.unnamed {
		must(os.RemoveAll(path))
	}
	if f.mode == losePowerAll {
		for i := len(f.undo) - 1; i >= 0; i-- {
			r := f.undo[i]
			if r.exchange {
				must(osFS{}.exchange(r.from, r.to))
			} else {
				must(os.Rename(r.to, r.from))
			}
		}
	}
}

// release drops the locks, as the end of a process does.
func (f *faultFS) release() {
	for _, l := range f.locks {
		_ = l.Close()
	}
	f.locks = nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *faultFS) mkdir(path string) error {
	return f.do(func() error {
		if err := (osFS{}).mkdir(path); err != nil {
			return err
		}
		f.unnamed[path] = true
		return nil
	})
}

func (f *faultFS) create(path string) (file syncFile, err error) {
	err = f.do(func() error {
		file, err = osFS{}.create(path)
		f.unsaved[path], f.unnamed[path] = true, true
		return err
	})
	return &faultFile{f, path, file}, err
}

func (f *faultFS) lock(folder string) (c io.Closer, err error) {
	if f.noLock {
		return nil, errors.ErrUnsupported
	}
	err = f.do(func() error {
		c, err = osFS{}.lock(folder)
		if err == nil {
			f.locks = append(f.locks, c)
		}
		return err
	})
	return c, err
}

func (f *faultFS) syncDir(path string) error {
	return f.do(func() error {
		for file := range f.unnamed {
			if filepath.Dir(file) == path {
				delete(f.unnamed, file)
			}
		}
		kept := f.undo[:0]
		for _, r := range f.undo {
			if r.dir != path {
				kept = append(kept, r)
			}
		}
		f.undo = kept
		return nil
	})
}

func (f *faultFS) rename(from, to string) error {
	return f.do(func() error {
		if err := (osFS{}).rename(from, to); err != nil {
			return err
		}
		f.moved(from, to)
		f.undo = append(f.undo, rename{filepath.Dir(to), from, to, false})
		return nil
	})
}

func (f *faultFS) exchange(a, b string) error {
	if f.noExchange {
		return errors.ErrUnsupported
	}
	return f.do(func() error {
		if err := (osFS{}).exchange(a, b); err != nil {
			return err
		}
		f.moved(a, b)
		f.undo = append(f.undo, rename{filepath.Dir(b), a, b, true})
		return nil
	})
}

// moved follows files into a renamed folder, whose own name undo looks after.
func (f *faultFS) moved(from, to string) {
	delete(f.unnamed, from)
	for _, set := range []map[string]bool{f.unsaved, f.unnamed} {
		for path := range set {
			if rest, ok := strings.CutPrefix(path, from+string(filepath.Separator)); ok {
				delete(set, path)
				set[filepath.Join(to, rest)] = true
			}
		}
	}
}

func (f *faultFS) removeAll(path string) error {
	return f.do(func() error { return osFS{}.removeAll(path) })
}

type faultFile struct {
	fs   *faultFS
	path string
	f    syncFile
}

func (w *faultFile) Write(p []byte) (n int, err error) {
	if w.fs.count+1 == w.fs.at && w.fs.mode == failOp {
		n, _ = w.f.Write(p[:len(p)/2])
	}
	err = w.fs.do(func() error {
		n, err = w.f.Write(p)
		return err
	})
	return n, err
}

func (w *faultFile) Sync() error {
	return w.fs.do(func() error {
		delete(w.fs.unsaved, w.path)
		return nil
	})
}

func (w *faultFile) Close() error {
	if w.fs.crashed {
		_ = w.f.Close()
		return errCrashed
	}
	return w.fs.do(w.f.Close)
}
