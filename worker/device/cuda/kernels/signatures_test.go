package kernels_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/worker/device/cuda/kernels"
)

// TestPTXIsFresh holds kernels.sum, which `make kernels` writes, to the
// sources and the PTX: an edited source with old PTX is an error, and so is
// PTX that somebody edited.
func TestPTXIsFresh(t *testing.T) {
	sources := glob(t, "*.cu")
	sums, err := os.ReadFile("kernels.sum")
	if err != nil {
		t.Fatal(err)
	}
	var headers []byte
	for _, h := range glob(t, "*.cuh") {
		headers = append(headers, read(t, h)...)
	}
	var want strings.Builder
	for _, source := range sources {
		name := strings.TrimSuffix(source, ".cu")
		want.WriteString(sum(append(slices.Clone(headers), read(t, source)...)) + " " + sum(read(t, name+".ptx")) + " " + name + "\n")
	}
	if string(sums) != want.String() {
		t.Errorf("the PTX is not that of the sources: run `make kernels`\nkernels.sum:\n%s\nfiles:\n%s", sums, want.String())
	}
	if got := kernels.Modules(); len(got) != len(sources) {
		t.Errorf("%d modules are embedded, there are %d sources", len(got), len(sources))
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

var (
	entry = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)`)
	param = regexp.MustCompile(`\.param \.(\w+) `)
	// letter is the type of a signature for a type of PTX. Pointers and 64-bit
	// integers are the same there.
	letter = map[string]string{"u64": "l", "u32": "i", "f32": "f", "s32": "i", "s64": "l"}
)

// TestSignatures compares the parameters that the launchers pass with those
// that the compiled kernels take.
func TestSignatures(t *testing.T) {
	found := map[string]bool{}
	for _, module := range kernels.Modules() {
		text, err := kernels.PTX(module)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.FindAllStringSubmatch(text, -1) {
			var params strings.Builder
			for _, p := range param.FindAllStringSubmatch(m[2], -1) {
				params.WriteString(letter[p[1]])
			}
			k, ok := kernels.Lookup(m[1])
			if !ok {
				t.Errorf("%s.cu has %s(%s), which signatures.go does not know", module, m[1], params.String())
				continue
			}
			found[m[1]] = true
			if want := strings.ReplaceAll(k.Params, "p", "l"); k.Module != module || want != params.String() {
				t.Errorf("%s.cu has %s(%s), signatures.go %s.cu and (%s)", module, m[1], params.String(), k.Module, want)
			}
		}
	}
	for name, k := range kernels.All() {
		if !found[name] {
			t.Errorf("%s is not in %s.ptx", name, k.Module)
		}
	}
}

// TestSharedMemory keeps static shared memory inside what every GPU gives
// without being asked (48 KiB).
func TestSharedMemory(t *testing.T) {
	for _, module := range kernels.Modules() {
		text, err := kernels.PTX(module)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, ".extern .shared") {
			t.Errorf("%s.cu has dynamic shared memory; the launchers give none", module)
		}
		if !strings.Contains(text, ".target sm_70") {
			t.Errorf("%s.ptx is not for sm_70: it would not run on every supported GPU", module)
		}
	}
}
