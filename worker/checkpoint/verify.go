package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// refuse gives err the exit class of checkpoints.
func refuse(err error) error { return exitcode.With(err, exitcode.Checkpoint) }

// Verify reads the checkpoint in folder path through and returns what is wrong
// with it: the file and the reason (missing, length, checksum), or nil. A
// checkpoint of a newer program gives ErrNewer.
func Verify(path string) error { return refuse(verify(path)) }

func verify(path string) error {
	m, err := verifySizes(path)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := f.checkContent(path); err != nil {
			return err
		}
	}
	_, err = readState(path)
	return err
}

// verifySizes is the part of Verify that does not read the tensors.
func verifySizes(path string) (manifest, error) {
	if err := checkFolder(path); err != nil {
		return manifest{}, err
	}
	m, err := readManifest(path)
	if err != nil {
		return manifest{}, err
	}
	for _, f := range m.Files {
		if err := f.checkSize(path); err != nil {
			return manifest{}, err
		}
	}
	return m, nil
}

// checkFolder tells a checkpoint from what is often given in its place.
func checkFolder(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a checkpoint: a checkpoint is a folder, such as %s", path, folderName(36))
	}
	if inside, err := List(path); err == nil && len(inside) > 0 {
		return fmt.Errorf("%s is not a checkpoint but a folder of them: give one of its %d, such as %s", path, len(inside), inside[0].Path)
	}
	return nil
}

func readState(path string) (State, error) {
	name := filepath.Join(path, stateFile)
	text, err := readSmall(name, maxState)
	if err != nil {
		return State{}, err
	}
	return decodeState(name, text)
}

// Latest returns the newest whole checkpoint in dir; ok is false when dir has
// no checkpoint at all. Each damaged one that is newer is reported through warn
// with the reason (warn may be nil).
//
// Checkpoints of which none is whole are an error, and so is one of a newer
// program: to start from scratch, or from an older state, in silence would lose
// the work.
func Latest(dir string, warn func(error)) (path string, ok bool, err error) {
	found, err := candidates(dir)
	if err != nil {
		return "", false, err
	}
	var first error
	for _, c := range found {
		err := verify(c.Path)
		if err == nil {
			return c.Path, true, nil
		}
		if errors.Is(err, ErrNewer) {
			return "", false, refuse(err)
		}
		if first == nil {
			first = err
		}
		if warn != nil {
			warn(refuse(fmt.Errorf("checkpoint %s is passed over: %w", c.Path, err)))
		}
	}
	if first == nil {
		return "", false, nil
	}
	return "", false, refuse(fmt.Errorf("none of the %d checkpoints in %s is whole: move the folder away or set checkpoint.resume: none to start from scratch (the newest: %w)", len(found), dir, first))
}
