package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Files of a checkpoint. DONE is written last.
const (
	modelFile     = "model.safetensors"
	optimizerFile = "optimizer.safetensors"
	stateFile     = "state.json"
	doneFile      = "DONE"
)

// Names in a checkpoint folder. All others are not ours and are left alone.
var (
	stepName     = regexp.MustCompile(`^step-([0-9]+)$`)
	replacedName = regexp.MustCompile(`^\.replaced-step-([0-9]+)$`)
	tempName     = regexp.MustCompile(`^\.tmp-step-[0-9]+-[0-9a-f]{16}$`)
)

func folderName(step int) string { return fmt.Sprintf("step-%08d", step) }

// newTempName is a name nobody else uses.
func newTempName(step int) string {
	return fmt.Sprintf(".tmp-%s-%016x", folderName(step), rand.Uint64())
}

// replacedFor is where the older of two checkpoints of one step waits while
// the newer takes its name, on file systems that cannot exchange names.
func replacedFor(step int) string { return ".replaced-" + folderName(step) }

// Entry is a checkpoint found by its name; whether it is whole, Verify says.
type Entry struct {
	Step int
	Path string
}

// List returns the checkpoints in dir, highest step first. A folder that does
// not exist has none. Anything that is not a folder named step-NUMBER is
// passed over.
func List(dir string) ([]Entry, error) { return listNames(dir, stepName) }

// candidates are all folders that may hold a checkpoint, best first: those of
// List, each followed by the one it was about to replace when a writer died.
func candidates(dir string) ([]Entry, error) {
	entries, err := listNames(dir, stepName)
	if err != nil {
		return nil, err
	}
	replaced, err := listNames(dir, replacedName)
	if err != nil {
		return nil, err
	}
	entries = append(entries, replaced...)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(b.Step, a.Step) })
	return entries, nil
}

func listNames(dir string, pattern *regexp.Regexp) ([]Entry, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refuse(fmt.Errorf("list checkpoints: %w", err))
	}
	var entries []Entry
	for _, name := range names {
		match := pattern.FindStringSubmatch(name.Name())
		if match == nil {
			continue
		}
		step, err := strconv.Atoi(match[1])
		path := filepath.Join(dir, name.Name())
		if err != nil || !isFolder(path) {
			continue
		}
		entries = append(entries, Entry{Step: step, Path: path})
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Step, a.Step), strings.Compare(a.Path, b.Path))
	})
	return entries, nil
}

// isFolder follows links: a checkpoint may lie on another disk.
func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
