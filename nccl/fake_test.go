//go:build linux && cgo

package nccl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildFake compiles testdata/fake.c and returns the library's path.
func buildFake(t *testing.T, defines ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build the stand-in for libnccl.so.2")
	}
	path := filepath.Join(t.TempDir(), soname)
	args := []string{"-shared", "-fPIC", "-w", "-o", path, "testdata/fake.c"}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// fake opens a fresh stand-in and returns its calls so far.
func fake(t *testing.T, defines ...string) (*Library, func() []string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	t.Setenv("FAKE_NCCL_LOG", log)
	t.Setenv("FAKE_NCCL", "")
	t.Setenv("FAKE_NCCL_LAST", "")
	t.Setenv("DDPRUN_NCCL", buildFake(t, defines...))
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return l, func() []string {
		b, err := os.ReadFile(log)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

// steer sets how the stand-in behaves from here on.
func steer(t *testing.T, how string) { t.Setenv("FAKE_NCCL", how) }

func has(calls []string, want string) bool {
	for _, c := range calls {
		if c == want {
			return true
		}
	}
	return false
}
