package cublaslt

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// disk is a search over a list of files.
func disk(env map[string]string, files ...string) search {
	return search{
		env: func(name string) string { return env[name] },
		glob: func(pattern string) []string {
			var out []string
			for _, f := range files {
				if ok, _ := filepath.Match(pattern, f); ok {
					out = append(out, f)
				}
			}
			return out
		},
	}
}

func paths(ps []place) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.path)
	}
	return strings.Join(out, " ")
}

func TestPlaces(t *testing.T) {
	const loader = "libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so.11"
	for _, c := range []struct {
		name  string
		env   map[string]string
		files []string
		want  string
	}{
		{"nothing", nil, nil, loader},
		{"pip of CUDA 13", map[string]string{"PATH": "/bin:/opt/torch/.venv/bin"}, []string{
			"/opt/torch/.venv/bin/python3", "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13",
		}, loader + " /opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13"},
		{"pip of CUDA 12", map[string]string{"HOME": "/home/a"}, []string{
			"/home/a/.local/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12",
		}, loader + " /home/a/.local/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12"},
		{"toolkits, newest first", nil, []string{
			"/usr/local/cuda-11.8/lib64/libcublasLt.so.11", "/usr/local/cuda-12.4/lib64/libcublasLt.so.12", "/usr/local/cuda-12.9/lib64/libcublasLt.so.12",
		}, loader + " /usr/local/cuda-12.9/lib64/libcublasLt.so.12 /usr/local/cuda-12.4/lib64/libcublasLt.so.12 /usr/local/cuda-11.8/lib64/libcublasLt.so.11"},
		{"named file", map[string]string{"DDPRUN_CUBLASLT": "/x/lt.so"}, nil, "/x/lt.so"},
		{"named folder", map[string]string{"DDPRUN_CUBLASLT": "/x"}, []string{"/x/libcublasLt.so.12"}, "/x/libcublasLt.so.12"},
	} {
		found, _ := disk(c.env, c.files...).places()
		if got := paths(found); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestNotFound(t *testing.T) {
	_, without := disk(map[string]string{"VIRTUAL_ENV": "/v"}).places()
	err := notFound([]error{errors.New("libcublasLt.so.13 (from the loader's path): no such file")}, without)
	for _, words := range []string{"DDPRUN_CUBLASLT", "pip install", "the loader's path", "/usr/local/cuda*/lib64/libcublasLt.so.*", "/v/lib/python3*/site-packages/nvidia/cu13/lib"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error lacks %q: %v", words, err)
		}
	}
}
