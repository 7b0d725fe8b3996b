package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries are built once a test process.
var binaries struct {
	sync.Mutex
	dir  string
	path map[string]string
	err  map[string]error
}

// Binary builds ddprun and returns the path of the program. The package's
// TestMain must call Main.
func Binary(t testing.TB) string {
	t.Helper()
	return Build(t, "ddprun")
}

// Build is Binary for any command of this module.
func Build(t testing.TB, name string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.path[name]; path != "" {
		return path
	}
	if err := binaries.err[name]; err != nil {
		t.Fatal(err)
	}
	path, err := build(name)
	if err != nil {
		if binaries.err == nil {
			binaries.err = map[string]error{}
		}
		binaries.err[name] = err
		t.Fatal(err)
	}
	if binaries.path == nil {
		binaries.path = map[string]string{}
	}
	binaries.path[name] = path
	return path
}

func build(name string) (string, error) {
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "ddprun-test-")
		if err != nil {
			return "", err
		}
		binaries.dir = dir
	}
	path := filepath.Join(binaries.dir, name)
	cmd := exec.Command("go", "build", "-o", path, "github.com/ddprun/ddprun/cmd/"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// Main runs a package's tests and removes what was built for them.
func Main(m *testing.M) int {
	code := m.Run()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	return code
}
