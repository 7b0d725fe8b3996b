package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// search finds libraries by environment and file system.
type search struct {
	env  func(string) string
	glob func(pattern string) []string
}

func machineSearch() search {
	return search{env: os.Getenv, glob: func(pattern string) []string {
		found, _ := filepath.Glob(pattern) // a bad pattern finds nothing
		return found
	}}
}

// files lists where a library may lie beside the loader's path: CUDA's folders
// and the folder that pip packages have for it in the site-packages of every
// Python there may be. folders are below site-packages, as nvidia/cublas/lib.
func (s search) files(soname string, folders ...string) []string {
	var out []string
	add := func(parts ...string) {
		found := s.glob(filepath.Join(append(parts, soname)...))
		slices.Sort(found)
		slices.Reverse(found) // the newest first, as far as names tell
		for _, f := range found {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := s.env(v); root != "" {
			add(root, "lib64")
		}
	}
	add("/usr/local/cuda*/lib64")
	add("/usr/local/cuda*/targets/*/lib")
	if len(folders) == 0 {
		return out
	}
	for _, site := range s.sites() {
		for _, folder := range folders {
			add(site, folder)
		}
	}
	return out
}

// sites are the site-packages of the environment's Pythons, without running
// one; they may be patterns.
func (s search) sites() []string {
	var out []string
	for _, dir := range filepath.SplitList(s.env("PYTHONPATH")) {
		if dir != "" {
			out = append(out, dir)
		}
	}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := s.env(v); root != "" {
			out = append(out, filepath.Join(root, "lib/python3*/site-packages"))
		}
	}
	for _, dir := range filepath.SplitList(s.env("PATH")) {
		if len(s.glob(filepath.Join(dir, "python3"))) > 0 {
			root := filepath.Dir(filepath.Clean(dir))
			for _, below := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages"} {
				out = append(out, filepath.Join(root, below))
			}
		}
	}
	if home := s.env("HOME"); home != "" {
		out = append(out, filepath.Join(home, ".local/lib/python3*/site-packages"))
	}
	return append(out, "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
		"/usr/lib/python3*/site-packages", "/usr/lib/python3/dist-packages", "/opt/conda/lib/python3*/site-packages", "/opt/*/.venv/lib/python3*/site-packages")
}

// wanted is a library to look for: each of its names is tried, and each that is
// found is reported, because which one fits depends on the driver.
type wanted struct {
	name    string
	named   string   // variable that names a file or folder, which is then the only place
	sonames []string // of its versions, newest first
	folders []string // of its pip package, for files
	also    []string // patterns of more places
}

var wantedLibraries = []wanted{
	{"cuBLAS", "DDPRUN_CUBLASLT", []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, []string{"nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/cu12/lib"}, nil},
	{"cuDNN", "", []string{"libcudnn.so.9", "libcudnn.so.8"}, []string{"nvidia/cudnn/lib"}, nil},
	{"OpenBLAS", "", []string{"libopenblas.so.0", "libopenblasp.so.0"}, nil, []string{"/usr/lib/*/openblas-*/libopenblas.so.0", "/usr/lib64/libopenblas*.so.0"}},
}

// candidates is what to open for one name of a library, best first.
func (w wanted) candidates(s search, soname string) []string {
	if named := s.env(w.named); w.named != "" && named != "" {
		if inside := filepath.Join(named, soname); len(s.glob(inside)) > 0 {
			return []string{inside}
		}
		if soname != w.sonames[0] {
			return nil // a file is tried once, whatever version it is
		}
		return []string{named}
	}
	out := append([]string{soname}, s.files(soname, w.folders...)...)
	for _, pattern := range w.also {
		for _, f := range s.glob(pattern) {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// stem is a library's name up to ".so": the file behind it may have any version
// in its name, as libopenblasp-r0.3.21.so has.
func stem(soname string) string {
	name, _, _ := strings.Cut(soname, ".so")
	return name
}
