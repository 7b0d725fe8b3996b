package nccl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// under is a search in which every absolute path lies below root.
func under(root string, env map[string]string) search {
	return search{
		env: func(k string) string { return env[k] },
		glob: func(pattern string) []string {
			found, _ := filepath.Glob(filepath.Join(root, pattern))
			for i, f := range found {
				found[i] = strings.TrimPrefix(f, root)
			}
			return found
		},
	}
}

func touch(t *testing.T, root string, files ...string) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func paths(ps []place) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.path)
	}
	return out
}

func TestPlacesInOrder(t *testing.T) {
	root := t.TempDir()
	touch(t, root,
		"/cuda/lib64/libnccl.so.2",
		"/usr/local/cuda-12.4/lib64/libnccl.so.2",
		"/usr/local/cuda-13.0/lib64/libnccl.so.2",
		"/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/torch/bin/python3",
		"/opt/torch/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/nopython/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/extra/nvidia/nccl/lib/libnccl.so.2",
		"/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2",
	)
	found, without := under(root, map[string]string{
		"CUDA_HOME": "/cuda", "VIRTUAL_ENV": "/venv", "PYTHONPATH": "/extra",
		"PATH": "/nopython/bin:/opt/torch/bin:/opt/torch/bin",
	}).places()
	want := []string{
		"libnccl.so.2",
		"/cuda/lib64/libnccl.so.2",
		"/usr/local/cuda-13.0/lib64/libnccl.so.2",
		"/usr/local/cuda-12.4/lib64/libnccl.so.2",
		"/extra/nvidia/nccl/lib/libnccl.so.2",
		"/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/torch/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2",
	}
	if got := paths(found); !slices.Equal(got, want) {
		t.Errorf("places:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Contains(without, "/opt/conda/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2") {
		t.Errorf("a pattern without a file is not reported: %q", without)
	}
}

func TestTheNamedLibraryIsTheOnlyPlace(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "/usr/local/cuda/lib64/libnccl.so.2", "/mine/libnccl.so.2")
	for named, want := range map[string]string{
		"/mine": "/mine/libnccl.so.2", "/mine/libnccl.so.2": "/mine/libnccl.so.2", "/absent.so": "/absent.so",
	} {
		found, _ := under(root, map[string]string{"DDPRUN_NCCL": named}).places()
		if got := paths(found); !slices.Equal(got, []string{want}) {
			t.Errorf("DDPRUN_NCCL=%s: places %q, want %q", named, got, want)
		}
	}
}

func TestMissingLibraryNamesWhatWasTried(t *testing.T) {
	t.Setenv("DDPRUN_NCCL", "/nowhere/libnccl.so.2")
	_, err := Open()
	if !errors.Is(err, ErrNotFound) || exitcode.Of(err) != exitcode.Machine {
		t.Fatalf("error %v with exit code %d", err, exitcode.Of(err))
	}
	for _, want := range []string{"/nowhere/libnccl.so.2", "DDPRUN_NCCL", "2.18.0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
