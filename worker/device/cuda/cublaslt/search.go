package cublaslt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// sonames are the library's names, newest first: a driver runs every CUDA that
// is not newer than itself, and newer ones know newer GPUs.
var sonames = []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}

// place is one thing to open and why it is worth trying.
type place struct{ path, from string }

// search finds libraries by environment and file system.
type search struct {
	env  func(string) string
	glob func(pattern string) []string
}

// places lists what to open, best first, and the patterns that matched no
// file. DDPRUN_CUBLASLT, when set, is the only place.
func (s search) places() (found []place, without []string) {
	if named := s.env("DDPRUN_CUBLASLT"); named != "" {
		for _, name := range sonames {
			if inside := filepath.Join(named, name); len(s.glob(inside)) > 0 {
				return []place{{inside, "DDPRUN_CUBLASLT"}}, nil
			}
		}
		return []place{{named, "DDPRUN_CUBLASLT"}}, nil
	}
	add := func(p place) {
		if !slices.ContainsFunc(found, func(q place) bool { return q.path == p.path }) {
			found = append(found, p)
		}
	}
	for _, name := range sonames {
		add(place{name, "the loader's path"})
	}
	for _, dir := range s.folders() {
		any := false
		for _, name := range sonames {
			matches := s.glob(filepath.Join(dir.path, name))
			slices.Sort(matches)
			slices.Reverse(matches)
			for _, m := range matches {
				add(place{m, dir.from})
				any = true
			}
		}
		if !any {
			without = append(without, filepath.Join(dir.path, "libcublasLt.so.*"))
		}
	}
	return found, without
}

// folders are the patterns of folders that may hold the library.
func (s search) folders() []place {
	var ps []place
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := s.env(v); root != "" {
			ps = append(ps, place{filepath.Join(root, "lib64"), v})
		}
	}
	ps = append(ps, place{"/usr/local/cuda*/lib64", "CUDA's folder"}, place{"/usr/local/cuda*/targets/*/lib", "CUDA's folder"})
	for _, site := range s.sites() {
		// CUDA 13's packages share a folder; those of 11 and 12 have one each.
		for _, inside := range []string{"nvidia/cu13/lib", "nvidia/cublas/lib"} {
			p := place{filepath.Join(site.path, inside), site.from}
			if !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// sites are the site-packages of every Python there may be, without running
// one.
func (s search) sites() []place {
	var ps []place
	for _, dir := range filepath.SplitList(s.env("PYTHONPATH")) {
		if dir != "" {
			ps = append(ps, place{dir, "PYTHONPATH"})
		}
	}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := s.env(v); root != "" {
			ps = append(ps, place{filepath.Join(root, "lib/python3*/site-packages"), v})
		}
	}
	for _, dir := range filepath.SplitList(s.env("PATH")) {
		if len(s.glob(filepath.Join(dir, "python3"))) == 0 {
			continue
		}
		root := filepath.Dir(filepath.Clean(dir))
		for _, inside := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages"} {
			ps = append(ps, place{filepath.Join(root, inside), "the python3 on PATH"})
		}
	}
	if home := s.env("HOME"); home != "" {
		ps = append(ps, place{filepath.Join(home, ".local/lib/python3*/site-packages"), "pip --user"})
	}
	for _, dir := range []string{
		"/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages", "/usr/lib/python3*/site-packages",
		"/usr/lib/python3/dist-packages", "/opt/conda/lib/python3*/site-packages", "/opt/*/.venv/lib/python3*/site-packages",
	} {
		ps = append(ps, place{dir, "pip"})
	}
	return ps
}

// notFound says what was looked for where.
func notFound(tried []error, without []string) error {
	var b strings.Builder
	for _, err := range tried {
		fmt.Fprintf(&b, "\n  %v", err)
	}
	for _, p := range without {
		fmt.Fprintf(&b, "\n  no file %s", p)
	}
	return fmt.Errorf("cuBLASLt, which multiplies the matrices, is not there; install it (it comes with CUDA, or pip install nvidia-cublas-cu12, or nvidia-cublas for CUDA 13), or set DDPRUN_CUBLASLT to its path; tried:%s", b.String())
}
