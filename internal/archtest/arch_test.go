package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ddprun/ddprun/"

// pkg is what `go list -json` tells of a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Name         string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// folder is the path below the module.
func (p pkg) folder() string { return strings.TrimPrefix(p.ImportPath, module) }

// list is every package of the module, with the given build tags.
func list(t *testing.T, tags string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,Imports,TestImports,XTestImports", "-tags="+tags, "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		ps = append(ps, p)
	}
}

// layers is the house from the top down. A package imports packages of its own
// or of a later layer only.
var layers = []string{
	"cmd", "launcher", "worker", "collective", "sampler", "nccl", "internal",
}

// workerLayers is the same inside worker.
var workerLayers = [][]string{
	{"worker"},
	{"worker/ddp", "worker/optim", "worker/data", "worker/metrics", "worker/checkpoint", "worker/amp"},
	{"worker/nn"},
	{"worker/device/cpu", "worker/device/cuda", "worker/device/devicetest"},
	{"worker/device"},
	{"worker/tensor"},
}

func layer(folder string) int {
	return slices.Index(layers, strings.Split(folder, "/")[0])
}

// workerLayer is the place of the longest entry that folder lies in.
func workerLayer(folder string) int {
	best, length := -1, -1
	for i, names := range workerLayers {
		for _, n := range names {
			if (folder == n || strings.HasPrefix(folder, n+"/")) && len(n) > length {
				best, length = i, len(n)
			}
		}
	}
	return best
}

func TestImportsGoDownwards(t *testing.T) {
	for _, p := range list(t, "") {
		from := p.folder()
		if strings.HasPrefix(from, "examples/") {
			continue
		}
		if layer(from) < 0 {
			t.Errorf("%s: no such top-level folder in the house; see docs/architecture.md", from)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			to := strings.TrimPrefix(imp, module)
			if layer(to) < layer(from) {
				t.Errorf("%s imports %s, which lies above it", from, to)
			}
			if from, to := workerLayer(from), workerLayer(to); from >= 0 && to >= 0 && to < from {
				t.Errorf("%s imports %s, which lies above it", p.folder(), imp)
			}
			if strings.HasPrefix(from, "launcher") && strings.HasPrefix(to, "worker") {
				t.Errorf("%s imports %s: launcher and worker know nothing of each other", from, to)
			}
		}
	}
}

func TestSamplerIsStandardLibraryOnly(t *testing.T) {
	for _, p := range list(t, "") {
		if p.folder() != "sampler" {
			continue
		}
		for _, imp := range p.Imports {
			if strings.Contains(strings.Split(imp, "/")[0], ".") {
				t.Errorf("sampler imports %s", imp)
			}
		}
	}
}

// owners lists dependencies that only some folders may import.
var owners = map[string][]string{
	"gorgonia.org/cu":                 {"worker/device/cuda"},
	"github.com/ebitengine/purego":    {"worker/device/cpu/blas"},
	"gonum.org/v1/gonum":              {"worker/device/cpu/blas"},
	"go.yaml.in/yaml/v3":              {"internal/job"},
	"github.com/spf13/cobra":          {"cmd"},
	"github.com/NVIDIA/go-nvml":       {"launcher", "cmd"},
	"github.com/hashicorp/memberlist": {"launcher/rendezvous"},
}

func TestDependenciesHaveOwners(t *testing.T) {
	for _, tags := range []string{"", "cuda"} {
		for _, p := range list(t, tags) {
			for _, imp := range p.Imports {
				for dep, folders := range owners {
					if imp != dep && !strings.HasPrefix(imp, dep+"/") {
						continue
					}
					if !slices.ContainsFunc(folders, func(f string) bool {
						return p.folder() == f || strings.HasPrefix(p.folder(), f+"/")
					}) {
						t.Errorf("%s imports %s, which belongs to %v", p.folder(), imp, folders)
					}
				}
			}
		}
	}
}

func TestNoCudaWithoutItsTag(t *testing.T) {
	for _, p := range list(t, "") {
		for _, imp := range p.Imports {
			if imp == "gorgonia.org/cu" {
				t.Errorf("%s imports %s without the cuda tag: its init ends the process on a machine without a driver", p.folder(), imp)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range list(t, "") {
		if p.Name == "main" || len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue
		}
		if len(p.GoFiles) == 1 {
			continue // a package of one file is documented in it
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "doc.go")); err != nil {
			t.Errorf("%s has no doc.go (duty, users, non-goals)", p.folder())
		}
	}
}

func TestPackageNamesAreNounsOfTheField(t *testing.T) {
	for _, p := range list(t, "") {
		switch path.Base(p.ImportPath) {
		case "util", "utils", "common", "misc", "helpers", "manager", "base":
			t.Errorf("%s: name the package after what it holds", p.folder())
		}
	}
}
