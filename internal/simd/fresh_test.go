package simd

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed assembly comes from the committed generator.
func TestGeneratedIsFresh(t *testing.T) {
	files, err := filepath.Glob("gen/*.go")
	if err != nil || len(files) == 0 {
		t.Skipf("no generator here: %v", err)
	}
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(b))
		h.Write(b)
	}
	want, err := os.ReadFile("gen.sum")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != strings.TrimSpace(string(want)) {
		t.Fatal("the generator changed after its output was written: run go generate in internal/simd")
	}
}
