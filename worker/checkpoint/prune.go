package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// staleAfter is when a temporary folder counts as left over where the file
// system has no locks to tell.
const staleAfter = 24 * time.Hour

// Prune removes all but the newest keep checkpoints of dir, and what writers
// that died left behind; keep < 1 removes left-overs only.
//
// The last whole checkpoint is never removed: one with a file missing or of the
// wrong length does not count as kept, and older ones are removed only when a
// kept one was read through and found whole.
func Prune(dir string, keep int) error {
	err := prune(osFS{}, dir, keep)
	if err != nil {
		return refuse(fmt.Errorf("prune checkpoints in %s: %w", dir, err))
	}
	return nil
}

func prune(sys fsys, dir string, keep int) error {
	err := errors.Join(removeLeftovers(sys, dir), removeReplaced(sys, dir))
	if keep < 1 {
		return err
	}
	found, listErr := candidates(dir)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	if len(found) <= keep {
		return err
	}
	kept, whole := 0, false
	for _, c := range found {
		_, damage := verifySizes(c.Path)
		switch {
		case kept < keep || !whole:
			if damage == nil {
				kept++
				whole = whole || verify(c.Path) == nil
			}
		default:
			err = errors.Join(err, removeWhole(sys, dir, c))
		}
	}
	return err
}

// removeWhole takes the name away first, for good, so that no half of a
// checkpoint is ever seen under it.
func removeWhole(sys fsys, dir string, c Entry) error {
	temp := filepath.Join(dir, newTempName(c.Step))
	if err := sys.rename(c.Path, temp); err != nil {
		return err
	}
	if err := sys.syncDir(dir); err != nil {
		return err
	}
	return sys.removeAll(temp)
}

// removeReplaced removes checkpoints whose replacement is whole.
func removeReplaced(sys fsys, dir string) error {
	replaced, err := listNames(dir, replacedName)
	if err != nil {
		return err
	}
	for _, r := range replaced {
		if verify(filepath.Join(dir, folderName(r.Step))) == nil {
			err = errors.Join(err, removeWhole(sys, dir, r))
		}
	}
	return err
}

// removeLeftovers removes the temporary folders of writers that are dead.
func removeLeftovers(sys fsys, dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if name.IsDir() && tempName.MatchString(name.Name()) {
			err = errors.Join(err, removeIfDead(sys, filepath.Join(dir, name.Name())))
		}
	}
	return err
}

func removeIfDead(sys fsys, temp string) error {
	lock, err := sys.lock(temp)
	switch {
	case err == nil:
		return errors.Join(sys.removeAll(temp), lock.Close())
	case errors.Is(err, errLocked), errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	st, err := os.Stat(temp)
	if err != nil || time.Since(st.ModTime()) < staleAfter {
		return nil
	}
	return sys.removeAll(temp)
}
