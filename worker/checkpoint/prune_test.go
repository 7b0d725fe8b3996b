package checkpoint

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func steps(t *testing.T, dir string) []int {
	t.Helper()
	entries, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	for _, e := range entries {
		steps = append(steps, e.Step)
	}
	return steps
}

func TestPruneKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []int{100, 1000, 900, 20} {
		mustSave(t, dir, step)
	}
	for _, c := range []struct {
		keep int
		want []int
	}{{0, []int{1000, 900, 100, 20}}, {-1, []int{1000, 900, 100, 20}}, {9, []int{1000, 900, 100, 20}}, {3, []int{1000, 900, 100}}, {1, []int{1000}}, {1, []int{1000}}} {
		if err := Prune(dir, c.keep); err != nil {
			t.Fatal(err)
		}
		if got := steps(t, dir); !slices.Equal(got, c.want) {
			t.Errorf("keep %d: %v, want %v", c.keep, got, c.want)
		}
	}
	checkNothingLeft(t, dir, "pruned")
	if err := Prune(filepath.Join(dir, "not-there"), 1); err != nil {
		t.Error(err)
	}
}

// The same folders with each subset of them damaged, in two ways: one that
// shows in the sizes and one that only the checksum finds.
func TestPruneNeverRemovesTheLastWhole(t *testing.T) {
	all := []int{4, 3, 2, 1}
	for i, way := range []func(string) error{truncateBy(1), func(p string) error { return flipByte(p, -1) }} {
		shows := i == 0
		for mask := range 1 << len(all) {
			for keep := 1; keep <= 3; keep++ {
				dir := fastDir(t)
				newest := 0
				for i, step := range all {
					path := mustSave(t, dir, step)
					if mask>>i&1 == 0 {
						newest = max(newest, step)
					} else if err := way(filepath.Join(path, modelFile)); err != nil {
						t.Fatal(err)
					}
				}
				if err := prune(newFaultFS(0, failOp), dir, keep); err != nil {
					t.Fatal(err)
				}
				path, ok, err := Latest(dir, nil)
				want := filepath.Join(dir, folderName(newest))
				if newest > 0 && (err != nil || !ok || path != want) {
					t.Errorf("damaged %04b keep %d: %s %v, want %s", mask, keep, path, err, want)
				}
				if left := wholeIn(t, dir); shows && left != min(keep, len(all)-bits.OnesCount(uint(mask))) {
					t.Errorf("damaged %04b keep %d: %d whole ones are left", mask, keep, left)
				}
				if left := steps(t, dir); newest == 0 && len(left) != len(all) {
					t.Errorf("none whole, keep %d: left %v", keep, left)
				}
			}
		}
	}
}

func wholeIn(t *testing.T, dir string) (count int) {
	t.Helper()
	for _, step := range steps(t, dir) {
		if Verify(filepath.Join(dir, folderName(step))) == nil {
			count++
		}
	}
	return count
}

func TestPruneRemovesOnlyOurLeftovers(t *testing.T) {
	dir := t.TempDir()
	mustSave(t, dir, 1)
	dead := filepath.Join(dir, newTempName(2))
	live := filepath.Join(dir, newTempName(3))
	stray := []string{"step-2000.tmp", ".tmp", ".tmp-step-5", "step-9999.bak", ".tmp-mine", "tmp-step-00000002-0123456789abcdef"}
	for _, path := range append([]string{dead, live}, joinAll(dir, stray)...) {
		if err := os.MkdirAll(filepath.Join(path, "inside"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, newTempName(4)) // a file is none of ours
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := osFS{}.lock(live)
	if err != nil {
		t.Skipf("no locks here: %v", err)
	}
	if err := Prune(dir, 1); err != nil {
		t.Fatal(err)
	}
	want := append([]string{filepath.Base(live), filepath.Base(file), "step-00000001"}, stray...)
	slices.Sort(want)
	if got := namesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(live); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder of a writer that died is left")
	}
}

func joinAll(dir string, names []string) []string {
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// Without locks, age decides.
func TestLeftoversWithoutLocks(t *testing.T) {
	dir := t.TempDir()
	young, old := filepath.Join(dir, newTempName(1)), filepath.Join(dir, newTempName(2))
	for _, path := range []string{young, old} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	sys := newFaultFS(0, failOp)
	sys.noLock = true
	if _, err := save(sys, dir, snapshot(3, 0)); err != nil {
		t.Fatal(err)
	}
	if err := prune(sys, dir, 1); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(young), "step-00000003"}
	if got := namesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A writer died after it had put the old checkpoint of a step aside.
func TestReplacedCheckpointIsFound(t *testing.T) {
	dir := t.TempDir()
	mustSave(t, dir, 3)
	aside := filepath.Join(dir, replacedFor(4))
	if err := os.Rename(mustSave(t, dir, 4), aside); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, ok, err := Latest(dir, nil)
		if err != nil || !ok || got != aside {
			t.Fatalf("%s %t %v", got, ok, err)
		}
		checkContent(t, got, 4, 0)
		if err := Prune(dir, 1); err != nil {
			t.Fatal(err)
		}
	}
	mustSave(t, dir, 4)
	if err := Prune(dir, 1); err != nil {
		t.Fatal(err)
	}
	if got := namesIn(t, dir); !slices.Equal(got, []string{"step-00000004"}) {
		t.Errorf("left %q", got)
	}
}

// Every operation of Prune fails or is the last: a whole checkpoint stays, the
// newest stays the newest, and nothing half removed has a checkpoint's name.
func TestPruneKillPoints(t *testing.T) {
	for _, mode := range []faultMode{failOp, crashOp, losePower, losePowerAll} {
		for at := 1; ; at++ {
			dir := fastDir(t)
			for step := range 5 {
				mustSave(t, dir, step)
			}
			if err := os.Mkdir(filepath.Join(dir, newTempName(9)), 0o755); err != nil {
				t.Fatal(err)
			}
			sys := newFaultFS(at, mode)
			err := prune(sys, dir, 2)
			sys.release()
			place := fmt.Sprintf("%s at operation %d", mode, at)
			for _, step := range steps(t, dir) {
				if err := Verify(filepath.Join(dir, folderName(step))); err != nil {
					t.Errorf("%s: %v", place, err)
				}
			}
			if got, ok, err := Latest(dir, nil); err != nil || !ok || got != filepath.Join(dir, folderName(4)) {
				t.Errorf("%s: newest is %s %v", place, got, err)
			}
			if sys.count < at {
				if err != nil {
					t.Errorf("%s: %v", place, err)
				}
				break
			}
			if err == nil {
				t.Errorf("%s: not reported", place)
			}
		}
	}
}
