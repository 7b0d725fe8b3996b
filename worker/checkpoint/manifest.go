package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Files that are read whole are refused beyond these sizes, in bytes.
const (
	maxManifest = 1 << 20
	maxState    = 64 << 20
)

// manifest is the content of DONE.
type manifest struct {
	Version int            `json:"version"`
	Files   []manifestFile `json:"files"`
}

// manifestFile describes one file. The checksum is CRC-32C: it finds every
// change of up to 32 bits in a row and all but one in 2^32 of the others, and
// unlike SHA-256 it costs next to nothing on any processor (about 10 GB/s).
// It guards against accidents, not against forgery: who can forge a file can
// forge its checksum too.
type manifestFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	CRC32C string `json:"crc32c"` // 8 hexadecimal digits
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func formatCRC(sum uint32) string { return fmt.Sprintf("%08x", sum) }

func encodeManifest(files []manifestFile) ([]byte, error) {
	text, err := json.MarshalIndent(manifest{version, files}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doneFile, err)
	}
	return append(text, '\n'), nil
}

// readManifest reads DONE of the checkpoint in folder path.
func readManifest(path string) (manifest, error) {
	done := filepath.Join(path, doneFile)
	text, err := readSmall(done, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, fmt.Errorf("%s is missing, so the checkpoint was never finished", done)
	}
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return manifest{}, fmt.Errorf("%s: damaged: %w", done, err)
	}
	if m.Version > version {
		return manifest{}, fmt.Errorf("%s: %w (its version is %d, this program knows up to %d)", done, ErrNewer, m.Version, version)
	}
	return m, m.check(done)
}

// check wants the files of a checkpoint, each once, and no name that leads out
// of the folder.
func (m manifest) check(done string) error {
	if m.Version < 1 {
		return fmt.Errorf("%s: damaged: version %d", done, m.Version)
	}
	seen := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if f.Name == doneFile || f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) || seen[f.Name] {
			return fmt.Errorf("%s: damaged: lists the file %q, which cannot be", done, f.Name)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{modelFile, optimizerFile, stateFile} {
		if !seen[name] {
			return fmt.Errorf("%s: damaged: does not list %s", done, name)
		}
	}
	return nil
}

// checkSize compares the size of a file with DONE's, without reading it.
func (f manifestFile) checkSize(folder string) error {
	path := filepath.Join(folder, f.Name)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing, though %s lists it", path, doneFile)
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case st.Size() != f.Size:
		return fmt.Errorf("%s: length is %d bytes, %s says %d", path, st.Size(), doneFile, f.Size)
	}
	return nil
}

// checkContent reads the file and compares its checksum.
func (f manifestFile) checkContent(folder string) error {
	path := filepath.Join(folder, f.Name)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // only read from
	sum := crc32.New(castagnoli())
	n, err := io.CopyBuffer(onlyWriter{sum}, file, make([]byte, min(f.Size+1, 1<<20)))
	if err != nil {
		return err
	}
	if got := formatCRC(sum.Sum32()); got != f.CRC32C || n != f.Size {
		return fmt.Errorf("%s: checksum of the content (%d bytes) is %s, %s says %s: damaged", path, n, got, doneFile, f.CRC32C)
	}
	return nil
}

// onlyWriter hides every other method, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// readSmall reads a file that has no reason to be large.
func readSmall(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%s: length is %d bytes, more than the %d it can have", path, st.Size(), limit)
	}
	return os.ReadFile(path)
}
