package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// damage is one way a file can be broken, and what the report must say.
type damage struct {
	name string
	do   func(path string) error
	want string
}

func truncateBy(n int64) func(string) error {
	return func(path string) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, st.Size()-n)
	}
}

func flipByte(path string, at int) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[(at+len(content))%len(content)] ^= 1
	return os.WriteFile(path, content, 0o600)
}

func damages() []damage {
	return []damage{
		{"cut by a byte", truncateBy(1), "length is"},
		{"a byte longer", truncateBy(-1), "length is"},
		{"emptied", func(p string) error { return os.Truncate(p, 0) }, "length is"},
		{"first byte changed", func(p string) error { return flipByte(p, 0) }, "checksum of the content"},
		{"last byte changed", func(p string) error { return flipByte(p, -1) }, "checksum of the content"},
		{"removed", os.Remove, "is missing"},
		{"a folder in its place", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }, "not a regular file"},
	}
}

func TestDamagedFilesAreNamedAndPassedOver(t *testing.T) {
	for _, file := range []string{modelFile, optimizerFile, stateFile} {
		for _, d := range damages() {
			t.Run(file+"/"+d.name, func(t *testing.T) {
				dir := t.TempDir()
				older, newer := mustSave(t, dir, 900), mustSave(t, dir, 1000)
				path := filepath.Join(newer, file)
				if err := d.do(path); err != nil {
					t.Fatal(err)
				}
				checkDamage(t, dir, newer, older, path, d.want)
			})
		}
	}
}

// checkDamage wants newer refused with a reason, older taken in its place, and
// an error when older is damaged too.
func checkDamage(t *testing.T, dir, newer, older, path, want string) {
	t.Helper()
	_, loadErr := Load(newer)
	for what, err := range map[string]error{"Verify": Verify(newer), "Load": loadErr} {
		if exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", what, want, err)
		}
	}
	var warned []error
	got, ok, err := Latest(dir, func(err error) { warned = append(warned, err) })
	if err != nil || !ok || got != older {
		t.Errorf("Latest: %s %t %v, want %s", got, ok, err, older)
	}
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), path) || !strings.Contains(warned[0].Error(), want) {
		t.Errorf("warned: %v", warned)
	}
	if err := os.Remove(filepath.Join(older, doneFile)); err != nil {
		t.Fatal(err)
	}
	_, ok, err = Latest(dir, nil)
	if ok || exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), "none of the 2 checkpoints in "+dir) || !strings.Contains(err.Error(), path) {
		t.Errorf("Latest with none whole: %t %v", ok, err)
	}
}

func TestDamagedDone(t *testing.T) {
	rewrite := func(old, replacement string) func(string) error {
		return func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			changed := strings.Replace(string(text), old, replacement, 1)
			if changed == string(text) {
				return fmt.Errorf("%q is not in %s", old, text)
			}
			return os.WriteFile(path, []byte(changed), 0o600)
		}
	}
	for _, d := range []damage{
		{"missing", os.Remove, "is missing, so the checkpoint was never finished"},
		{"empty", func(p string) error { return os.Truncate(p, 0) }, "damaged"},
		{"cut", truncateBy(3), "damaged"},
		{"huge", func(p string) error { return os.Truncate(p, 1<<40) }, "more than the"},
		{"name changed", rewrite(modelFile, "model.safetensorz"), "does not list model.safetensors"},
		{"name leads out", rewrite(`"files": [`, `"files": [{"name":"../x","size":0,"crc32c":"00000000"},`), `lists the file "../x"`},
		{"name twice", rewrite(optimizerFile, modelFile), "which cannot be"},
		{"no version", rewrite(`"version": 1`, `"version": 0`), "version 0"},
		{"null", func(p string) error { return os.WriteFile(p, []byte("null"), 0o600) }, "damaged"},
	} {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			older, newer := mustSave(t, dir, 900), mustSave(t, dir, 1000)
			path := filepath.Join(newer, doneFile)
			if err := d.do(path); err != nil {
				t.Fatal(err)
			}
			checkDamage(t, dir, newer, older, path, d.want)
		})
	}
}

// Any one changed byte of any file is found, or (in the white space of DONE)
// changes nothing. Of the tensors, which one sum guards, some bytes do.
func TestEveryByteIsGuarded(t *testing.T) {
	dir := fastDir(t)
	path := mustSave(t, dir, 1)
	for _, name := range []string{modelFile, optimizerFile, stateFile, doneFile} {
		file := filepath.Join(path, name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stride := 1
		if name == modelFile || name == optimizerFile {
			stride = 13
		}
		for i := 0; i < len(whole); i += stride {
			if err := flipByte(file, i); err != nil {
				t.Fatal(err)
			}
			if err := Verify(path); err == nil && (name != doneFile || whole[i] != ' ' && whole[i] != '\n') {
				t.Errorf("%s: byte %d (%q) is not guarded", name, i, whole[i])
			}
			if err := os.WriteFile(file, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkContent(t, path, 1, 0)
}

// replaceState writes a state.json with a DONE that fits it.
func replaceState(t *testing.T, path, text string) {
	t.Helper()
	m, err := readManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Files {
		if m.Files[i].Name != stateFile {
			continue
		}
		name := filepath.Join(path, stateFile)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if m.Files[i], err = writeFile(osFS{}, name, writeBytes([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	done, err := encodeManifest(m.Files)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, doneFile), done, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenState(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "not a state of a run",
		"{":                          "not a state of a run",
		"[]":                         "not a state of a run",
		"{}":                         "version 0",
		`{"version":1,"step":"x"}`:   "not a state of a run",
		`{"version":1,"step":-1}`:    "a count is negative",
		`{"version":1,"step":1e99}`:  "not a state of a run",
		`{"version":1,"step":1} {}`:  "not a state of a run",
		`{"version":1,"epoch":-100}`: "a count is negative",
	} {
		dir := t.TempDir()
		older, newer := mustSave(t, dir, 900), mustSave(t, dir, 1000)
		replaceState(t, newer, text)
		checkDamage(t, dir, newer, older, filepath.Join(newer, stateFile), want)
	}
}

func TestUnknownFieldsArePassedOver(t *testing.T) {
	path := mustSave(t, t.TempDir(), 5)
	replaceState(t, path, `{"version":1,"step":5,"of_the_future":{"x":[1]},"world_size":2}`)
	l, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.State.Step != 5 || l.State.WorldSize != 2 {
		t.Errorf("state %+v", l.State)
	}
}

// A checkpoint of a newer program is not damage: it stops the search.
func TestNewerVersionIsRefused(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		stateFile: func(t *testing.T, path string) { replaceState(t, path, `{"version":2,"step":1000}`) },
		doneFile: func(t *testing.T, path string) {
			if err := os.WriteFile(filepath.Join(path, doneFile), []byte(`{"version":2}`), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dir := t.TempDir()
		mustSave(t, dir, 900)
		newer := mustSave(t, dir, 1000)
		change(t, newer)
		_, ok, err := Latest(dir, func(err error) { t.Errorf("warned: %v", err) })
		if ok || !errors.Is(err, ErrNewer) || exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), filepath.Join(newer, name)) {
			t.Errorf("%s: %t %v", name, ok, err)
		}
		if _, err := Load(newer); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: Load: %v", name, err)
		}
	}
}

// Scenario: numbers, not text or dates, decide; stray names do not count.
func TestLatestGoesByNumber(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []int{1000, 100, 900, 100_000_000} {
		mustSave(t, dir, step)
	}
	if err := os.RemoveAll(filepath.Join(dir, "step-100000000")); err != nil {
		t.Fatal(err)
	}
	// As text, this one comes last.
	if err := os.Rename(filepath.Join(dir, "step-00000900"), filepath.Join(dir, "step-900")); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(dir, "step-00001000")
	past := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(newest, past, past); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "step-1500")
	for _, name := range []string{"step-1500", "step-9998.old", "step-", "step-x", "step-99999999999999999999", "astep-9999", "step-9997-copy", ".tmp-step-9996"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"step-2000.tmp", "step-9999.bak", "step-3000", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var warned []error
	got, ok, err := Latest(dir, func(err error) { warned = append(warned, err) })
	if err != nil || !ok || got != newest {
		t.Errorf("Latest: %s %t %v", got, ok, err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), empty) {
		t.Errorf("warned: %v", warned)
	}
	entries, err := List(dir)
	var steps []int
	for _, e := range entries {
		steps = append(steps, e.Step)
	}
	if want := []int{1500, 1000, 900, 100}; err != nil || !slices.Equal(steps, want) {
		t.Errorf("List: %v %v, want %v", steps, err, want)
	}
}

func TestLatestOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Join(dir, "not-there")} {
		if path, ok, err := Latest(d, nil); path != "" || ok || err != nil {
			t.Errorf("%s: %q %t %v", d, path, ok, err)
		}
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Latest(file, nil); ok || exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), file) {
		t.Errorf("a file: %t %v", ok, err)
	}
}

func TestLoadOfWhatIsNoCheckpoint(t *testing.T) {
	dir := t.TempDir()
	newest := mustSave(t, dir, 12)
	file := filepath.Join(dir, "ck.bad")
	if err := os.WriteFile(file, []byte("name: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                      "is not a checkpoint: a checkpoint is a folder",
		filepath.Join(dir, "no"):  "no such file",
		dir:                       "such as " + newest,
		t.TempDir():               "DONE is missing",
		filepath.Join(file, "in"): "not a directory",
	} {
		_, err := Load(path)
		if exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: want %q, got %v", path, want, err)
		}
	}
}

// A link to a checkpoint on another disk counts.
func TestLinkedCheckpoint(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "step-00000008")
	if err := os.Symlink(mustSave(t, far, 8), path); err != nil {
		t.Fatal(err)
	}
	got, ok, err := Latest(dir, nil)
	if err != nil || !ok || got != path {
		t.Fatalf("%s %t %v", got, ok, err)
	}
	checkContent(t, got, 8, 0)
}
