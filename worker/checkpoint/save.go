package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
)

// Save writes a checkpoint into dir, which is made when it is missing, and
// returns its folder. When it returns nil the checkpoint is whole and survives
// a loss of power; when it returns an error, whatever was in dir before is
// still there, the newest one still the newest. A checkpoint of the same step
// is replaced, in one step where the file system can.
func Save(dir string, s Snapshot) (path string, err error) {
	return save(osFS{}, dir, s)
}

func save(sys fsys, dir string, s Snapshot) (string, error) {
	p, err := newPlan(s)
	if err != nil {
		return "", refuse(fmt.Errorf("save checkpoint of step %d: %w", s.State.Step, err))
	}
	final := filepath.Join(dir, folderName(s.State.Step))
	if err := p.run(sys, dir, final); err != nil {
		return "", refuse(fmt.Errorf("save checkpoint %s: %w", final, explainFull(err, dir, p.bytes)))
	}
	return final, nil
}

// Prepare makes dir and proves that a file can be written in it, so that a run
// with nowhere to save ends before its first step.
func Prepare(dir string) error {
	return refuse(prepare(osFS{}, dir))
}

func prepare(sys fsys, dir string) error {
	if err := makeFolder(sys, dir); err != nil {
		return fmt.Errorf("checkpoint folder %s: %w", dir, err)
	}
	probe := filepath.Join(dir, newTempName(0))
	err := sys.mkdir(probe)
	if err == nil {
		_, err = writeFile(sys, filepath.Join(probe, "probe"), func(w io.Writer) error {
			_, err := w.Write([]byte("probe\n"))
			return err
		})
		err = errors.Join(err, sys.removeAll(probe))
	}
	if err != nil {
		return fmt.Errorf("checkpoint folder %s cannot be written to: %w", dir, explainFull(err, dir, 0))
	}
	return nil
}

// plan is a checkpoint to be written; everything that can be refused without
// the disk was looked at.
type plan struct {
	snapshot Snapshot
	state    []byte
	bytes    int64 // of all files but DONE
}

func newPlan(s Snapshot) (plan, error) {
	if s.State.Step < 0 {
		return plan{}, errors.New("the step is negative")
	}
	model, err := safetensors.Size(s.Model, nil)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", modelFile, err)
	}
	optimizer, err := safetensors.Size(s.Optimizer, nil)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", optimizerFile, err)
	}
	state, err := encodeState(s.State)
	if err != nil {
		return plan{}, err
	}
	return plan{s, state, model + optimizer + int64(len(state))}, nil
}

// run writes the checkpoint under a temporary name and gives it its own; when
// it fails, nothing of it is left.
func (p plan) run(sys fsys, dir, final string) error {
	if err := makeFolder(sys, dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, newTempName(p.snapshot.State.Step))
	if err := sys.mkdir(temp); err != nil {
		return err
	}
	lock, err := sys.lock(temp)
	switch {
	case err == nil:
		defer lock.Close() // held for its effect only
	case !errors.Is(err, errors.ErrUnsupported):
		return errors.Join(err, sys.removeAll(temp))
	}
	if err = p.write(sys, temp); err == nil {
		err = publish(sys, dir, temp, final)
	}
	if err != nil {
		return errors.Join(err, sys.removeAll(temp))
	}
	return nil
}

// write fills the folder, DONE last, all of it synced.
func (p plan) write(sys fsys, folder string) error {
	var files []manifestFile
	for _, part := range []struct {
		name string
		fill func(io.Writer) error
	}{
		{modelFile, func(w io.Writer) error { return safetensors.Write(w, p.snapshot.Model, nil) }},
		{optimizerFile, func(w io.Writer) error { return safetensors.Write(w, p.snapshot.Optimizer, nil) }},
		{stateFile, writeBytes(p.state)},
	} {
		f, err := writeFile(sys, filepath.Join(folder, part.name), part.fill)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	done, err := encodeManifest(files)
	if err != nil {
		return err
	}
	if _, err := writeFile(sys, filepath.Join(folder, doneFile), writeBytes(done)); err != nil {
		return err
	}
	return sys.syncDir(folder)
}

func writeBytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// writeFile makes a file, fills it and syncs it; it returns its line in DONE.
func writeFile(sys fsys, path string, fill func(io.Writer) error) (manifestFile, error) {
	f, err := sys.create(path)
	if err != nil {
		return manifestFile{}, err
	}
	sum := &summingWriter{w: f}
	// Gathers small tensors; large ones go through without a copy.
	buffered := bufio.NewWriterSize(sum, 1<<18)
	err = fill(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	// Closing can be where a full disk or a lost server is first heard of.
	if err := errors.Join(err, f.Close()); err != nil {
		return manifestFile{}, err
	}
	return manifestFile{Name: filepath.Base(path), Size: sum.size, CRC32C: formatCRC(sum.crc)}, nil
}

// summingWriter counts and sums what it passes on.
type summingWriter struct {
	w    io.Writer
	size int64
	crc  uint32
}

func (s *summingWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.size += int64(n)
	s.crc = crc32.Update(s.crc, castagnoli(), p[:n])
	return n, err
}

// makeFolder makes dir and its missing parents, each name synced.
func makeFolder(sys fsys, dir string) error {
	st, err := os.Stat(dir)
	if err == nil {
		if !st.IsDir() {
			return fmt.Errorf("%s is a file, not a folder", dir)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if parent != dir {
		if err := makeFolder(sys, parent); err != nil {
			return err
		}
	}
	if err := sys.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sys.syncDir(parent)
}

// explainFull adds to the error of a full disk what was wanted and what there
// is; call it when the failed attempt is removed.
func explainFull(err error, dir string, wanted int64) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	free, ok := freeBytes(dir)
	if !ok {
		return fmt.Errorf("%w (the checkpoint needs %d bytes: make room or lower checkpoint.keep)", err, wanted)
	}
	return fmt.Errorf("%w (the checkpoint needs %d bytes, %d are free: make room or lower checkpoint.keep)", err, wanted, free)
}
