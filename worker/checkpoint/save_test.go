package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
)

// snapshot is a state whose every number follows from step and mark.
func snapshot(step int, mark float32) Snapshot {
	values := make([]float32, 100)
	for i := range values {
		values[i] = mark + float32(step*len(values)+i)
	}
	data := safetensors.Float32Bytes(values)
	return Snapshot{
		Model:     []safetensors.Tensor{{Name: "fc.weight", DType: "F32", Shape: []int{10, 10}, Data: data}},
		Optimizer: []safetensors.Tensor{{Name: "fc.weight.momentum", DType: "F32", Shape: []int{100}, Data: data}},
		State: State{
			Step: step, Epoch: step / 10, Consumed: step % 10 * 128, Updates: step, WorldSize: 4, BatchSize: 32, Seed: -7,
			RNG: map[string]string{"dropout": "AAEC"}, LossScale: 65536, GrowthTracker: 3,
			BucketLayout: [][]int{{1}, {0}}, JobDigest: "d1", Optimizer: "adamw",
		},
	}
}

// mustSave saves without the real syncs, of which a test machine's disk does
// few in a second.
func mustSave(t testing.TB, dir string, step int) string {
	t.Helper()
	sys := newFaultFS(0, failOp)
	defer sys.release()
	path, err := save(sys, dir, snapshot(step, 0))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checkContent loads a checkpoint and compares every number.
func checkContent(t testing.TB, path string, step int, mark float32) {
	t.Helper()
	l, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	compareContent(t, l, step, mark)
}

func compareContent(t testing.TB, l *Loaded, step int, mark float32) {
	t.Helper()
	want := snapshot(step, mark)
	want.State.Version = version
	if !reflect.DeepEqual(l.State, want.State) {
		t.Errorf("state %+v, want %+v", l.State, want.State)
	}
	for _, part := range []struct {
		f    *safetensors.File
		want []safetensors.Tensor
	}{{l.Model, want.Model}, {l.Optimizer, want.Optimizer}} {
		if err := part.f.Match(part.want, false); err != nil {
			t.Error(err)
		}
		got, err := part.f.Read(part.want[0].Name)
		if err != nil || !slices.Equal(got, part.want[0].Data) {
			t.Errorf("%s: %v, other data", part.want[0].Name, err)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "checkpoints")
	old := syscall.Umask(0) // the widest modes
	defer syscall.Umask(old)
	path := mustSave(t, dir, 36)
	if path != filepath.Join(dir, "step-00000036") {
		t.Errorf("path %s", path)
	}
	checkContent(t, path, 36, 0)
	for _, name := range []string{".", modelFile, optimizerFile, stateFile, doneFile, "..", "../.."} {
		st, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if st.IsDir() {
			want = 0o755
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, st.Mode().Perm(), want)
		}
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{"step-00000036"}) {
		t.Errorf("left in the folder: %v", names)
	}
}

// Two saves of the same state are the same bytes: what resume is proved by.
func TestSaveIsDeterministic(t *testing.T) {
	a, b := mustSave(t, t.TempDir(), 5), mustSave(t, t.TempDir(), 5)
	for _, name := range []string{modelFile, optimizerFile, stateFile, doneFile} {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || !slices.Equal(x, y) {
			t.Errorf("%s differs (%v, %v)", name, errX, errY)
		}
	}
}

func namesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSaveReplacesTheSameStep(t *testing.T) {
	for _, noExchange := range []bool{false, true} {
		dir := t.TempDir()
		mustSave(t, dir, 7)
		sys := newFaultFS(0, failOp)
		sys.noExchange = noExchange
		path, err := save(sys, dir, snapshot(7, 0.5))
		if err != nil {
			t.Fatal(err)
		}
		sys.release()
		checkContent(t, path, 7, 0.5)
		if names := namesIn(t, dir); !slices.Equal(names, []string{"step-00000007"}) {
			t.Errorf("no exchange %t: left in the folder: %v", noExchange, names)
		}
	}
}

// fastDir is a new folder in memory where there is one: tests with thousands
// of files leave the disk alone.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "checkpoint-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// killCase is a folder before a save, and what may be the newest after it.
type killCase struct {
	name       string
	noExchange bool
	before     func(t *testing.T, dir string)
	step       int
	old        int // newest step before; -1: none
}

func killCases() []killCase {
	same := func(t *testing.T, dir string) {
		mustSave(t, dir, 3)
		mustSave(t, dir, 4)
	}
	return []killCase{
		{name: "first", before: func(*testing.T, string) {}, step: 4, old: -1},
		{name: "second", before: func(t *testing.T, dir string) { mustSave(t, dir, 3) }, step: 4, old: 3},
		{name: "same step", before: same, step: 4, old: 4},
		{name: "same step without exchange", before: same, step: 4, old: 4, noExchange: true},
	}
}

// Every single operation of Save fails, or is the last one before the process
// or the machine dies. Afterwards Latest has the old checkpoint or the new one,
// whole, and the new one if Save said so; a failed Save leaves nothing behind.
func TestEveryKillPoint(t *testing.T) {
	for _, c := range killCases() {
		for _, mode := range []faultMode{failOp, crashOp, losePower, losePowerAll} {
			t.Run(fmt.Sprintf("%s/%s", c.name, mode), func(t *testing.T) {
				root, points := fastDir(t), 0
				for at := 1; killPoint(t, filepath.Join(root, fmt.Sprint(at)), c, mode, at); at++ {
					points++
				}
				if points < 20 {
					t.Errorf("only %d operations", points)
				}
			})
		}
	}
}

// killPoint runs one; false: the save was over before it.
func killPoint(t *testing.T, dir string, c killCase, mode faultMode, at int) bool {
	t.Helper()
	c.before(t, dir)
	sys := newFaultFS(at, mode)
	sys.noExchange = c.noExchange
	_, err := save(sys, dir, snapshot(c.step, 0.5))
	reached := sys.count >= at
	if err == nil && mode != failOp {
		sys.crash() // right after Save said that all is well
	}
	sys.release()
	place := fmt.Sprintf("operation %d", at)
	isNew := checkLatest(t, dir, c, place)
	switch {
	case err == nil && !isNew:
		t.Errorf("%s: Save reported a save that did not happen", place)
	case err != nil && exitcode.Of(err) != exitcode.Checkpoint:
		t.Errorf("%s: exit code %d", place, exitcode.Of(err))
	case err != nil && mode == failOp && isNew:
		t.Errorf("%s: Save failed (%v), but its checkpoint is the newest", place, err)
	case err != nil && mode == failOp:
		checkNothingLeft(t, dir, place)
	}
	checkGoesOn(t, dir, c, place, isNew)
	return reached
}

// checkGoesOn is what the run that is started again does.
func checkGoesOn(t *testing.T, dir string, c killCase, place string, isNew bool) {
	t.Helper()
	next := newFaultFS(0, failOp)
	next.noExchange = c.noExchange
	defer next.release()
	if err := prune(next, dir, 3); err != nil {
		t.Errorf("%s: prune: %v", place, err)
	}
	if again := checkLatest(t, dir, c, place+", pruned"); again != isNew {
		t.Errorf("%s: prune changed the newest checkpoint", place)
	}
	if _, err := save(next, dir, snapshot(c.step, 0.5)); err != nil {
		t.Errorf("%s: the next save fails: %v", place, err)
	} else if !checkLatest(t, dir, c, place+", saved again") {
		t.Errorf("%s: the next save is not the newest", place)
	}
	if err := prune(next, dir, 3); err != nil {
		t.Errorf("%s: prune again: %v", place, err)
	}
	checkNothingLeft(t, dir, place+", pruned")
}

func checkLatest(t *testing.T, dir string, c killCase, place string) (isNew bool) {
	t.Helper()
	path, ok, err := Latest(dir, func(err error) { t.Errorf("%s: %v", place, err) })
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	if !ok {
		if c.old >= 0 {
			t.Fatalf("%s: the old checkpoint is lost", place)
		}
		return false
	}
	l, err := Load(path)
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	defer l.Close()
	values, err := l.Model.ReadFloat32("fc.weight")
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	if isNew = values[0] != float32(int(values[0])); isNew {
		compareContent(t, l, c.step, 0.5)
	} else {
		compareContent(t, l, c.old, 0)
	}
	return isNew
}

func checkNothingLeft(t *testing.T, dir, place string) {
	t.Helper()
	for _, name := range namesIn(t, dir) {
		if !stepName.MatchString(name) {
			t.Errorf("%s: %s is left", place, name)
		}
	}
}

func TestSaveRefusesBadSnapshots(t *testing.T) {
	for _, c := range []struct {
		change func(*Snapshot)
		want   string
	}{
		{func(s *Snapshot) { s.State.Step = -1 }, "the step is negative"},
		{func(s *Snapshot) { s.Model[0].Data = s.Model[0].Data[1:] }, `tensor "fc.weight": 399 bytes of data`},
		{func(s *Snapshot) { s.Optimizer = append(s.Optimizer, s.Optimizer[0]) }, "optimizer.safetensors: "},
		{func(s *Snapshot) { s.State.LossScale = math.Inf(1) }, "state.json: "},
	} {
		dir := filepath.Join(t.TempDir(), "ck")
		s := snapshot(1, 0)
		c.change(&s)
		_, err := Save(dir, s)
		if exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: something was written", c.want)
		}
	}
}

func TestFolderThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tiny.yaml")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "ck"), "/proc/ck"} {
		_, saveErr := Save(dir, snapshot(1, 0))
		for what, err := range map[string]error{"Save": saveErr, "Prepare": Prepare(dir)} {
			if exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s(%s): %v", what, dir, err)
			}
		}
	}
}

func TestPrepareLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "y")
	for range 2 {
		if err := Prepare(dir); err != nil {
			t.Fatal(err)
		}
	}
	if names := namesIn(t, dir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	for at := 1; ; at++ { // every operation of it fails once
		sys := newFaultFS(at, failOp)
		err := prepare(sys, filepath.Join(t.TempDir(), "x", "y"))
		if sys.count < at {
			break
		}
		if !errors.Is(err, errInjected) {
			t.Errorf("operation %d: %v", at, err)
		}
	}
}
