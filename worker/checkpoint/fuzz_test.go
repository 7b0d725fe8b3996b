package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever DONE holds: no panic, and what is accepted lists the files that are
// there, with their sums.
func FuzzDone(f *testing.F) {
	dir := f.TempDir()
	path := mustSave(f, dir, 1)
	done := filepath.Join(path, doneFile)
	whole, err := os.ReadFile(done)
	if err != nil {
		f.Fatal(err)
	}
	want, err := readManifest(path)
	if err != nil {
		f.Fatal(err)
	}
	sums := make(map[string]manifestFile)
	for _, file := range want.Files {
		sums[file.Name] = file
	}
	f.Add(whole)
	f.Add([]byte(`{"version":1,"files":[{"name":"/etc/passwd","size":1,"crc32c":""}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(done, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if Verify(path) != nil {
			return
		}
		m, err := readManifest(path)
		if err != nil || len(m.Files) != len(sums) {
			t.Fatalf("accepted %q: %v", text, err)
		}
		for _, file := range m.Files {
			if file != sums[file.Name] {
				t.Fatalf("accepted %q: %+v", text, file)
			}
		}
	})
}

// Whatever state.json holds: no panic, and what is accepted has sane counts.
func FuzzState(f *testing.F) {
	text, err := encodeState(snapshot(5, 0).State)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"step":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decodeState("state.json", text)
		if err == nil && (s.Version != version || s.Step < 0 || s.Epoch < 0 || s.Consumed < 0) {
			t.Fatalf("accepted %q: %+v", text, s)
		}
	})
}
