package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// publish gives the finished folder temp its name in dir. When the name cannot
// be made durable it is taken back: a save that may vanish with the next loss
// of power must not be the newest now.
func publish(sys fsys, dir, temp, final string) error {
	_, err := os.Lstat(final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return commit(sys, dir, func() error { return sys.rename(temp, final) }, func() error { return sys.rename(final, temp) })
	case err != nil:
		return err
	}
	swap := func() error { return sys.exchange(temp, final) }
	err = commit(sys, dir, swap, swap)
	if errors.Is(err, errors.ErrUnsupported) {
		return publishAside(sys, dir, temp, final)
	}
	if err != nil {
		return err
	}
	// temp is the old one now. If it stays, Prune removes it.
	_ = sys.removeAll(temp)
	return nil
}

// publishAside replaces final without exchange: between its two renames the
// old checkpoint has another name, under which Latest still finds it.
func publishAside(sys fsys, dir, temp, final string) error {
	aside := filepath.Join(dir, ".replaced-"+filepath.Base(final))
	if err := sys.removeAll(aside); err != nil {
		return err
	}
	do := func() error {
		if err := sys.rename(final, aside); err != nil {
			return err
		}
		if err := sys.rename(temp, final); err != nil {
			return errors.Join(err, sys.rename(aside, final))
		}
		return nil
	}
	undo := func() error {
		if err := sys.rename(final, temp); err != nil {
			return err
		}
		return sys.rename(aside, final)
	}
	if err := commit(sys, dir, do, undo); err != nil {
		return err
	}
	_ = sys.removeAll(aside) // if it stays, Prune removes it
	return nil
}

// commit does a change of names in dir and syncs it, or leaves things as they
// were.
func commit(sys fsys, dir string, do, undo func() error) error {
	if err := do(); err != nil {
		return err
	}
	err := sys.syncDir(dir)
	if err == nil {
		return nil
	}
	if back := undo(); back != nil {
		return fmt.Errorf("%w; the new name could not be taken back: %w", err, back)
	}
	return err
}
