package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const soname = "libnccl.so.2"

// place is one thing to open and why it is worth trying.
type place struct {
	path string
	from string
}

// search finds libraries by environment and file system.
type search struct {
	env  func(string) string
	glob func(pattern string) []string
}

func systemSearch() search {
	return search{env: os.Getenv, glob: func(pattern string) []string {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern: a path with a bracket, say
		return found
	}}
}

// places lists what to open, best first, and the patterns that matched no
// file. DDPRUN_NCCL, when set, is the only place: whoever names a library does
// not want another.
func (s search) places() (found []place, without []string) {
	if named := s.env("DDPRUN_NCCL"); named != "" {
		path := named
		if inside := filepath.Join(named, soname); len(s.glob(inside)) > 0 {
			path = inside
		}
		return []place{{path, "DDPRUN_NCCL"}}, nil
	}
	found = []place{{soname, "the loader's path"}}
	for _, p := range append(s.cudaPatterns(), s.pipPatterns()...) {
		matches := s.glob(p.path)
		if len(matches) == 0 {
			without = append(without, p.path)
		}
		slices.Sort(matches)
		slices.Reverse(matches) // the newest CUDA first, as far as names tell
		for _, m := range matches {
			if !slices.ContainsFunc(found, func(q place) bool { return q.path == m }) {
				found = append(found, place{m, p.from})
			}
		}
	}
	return found, without
}

func (s search) cudaPatterns() []place {
	var ps []place
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := s.env(v); root != "" {
			ps = append(ps, place{filepath.Join(root, "lib64", soname), v})
		}
	}
	return append(ps,
		place{"/usr/local/cuda*/lib64/" + soname, "CUDA's folder"},
		place{"/usr/local/cuda*/targets/*/lib/" + soname, "CUDA's folder"},
		place{"/usr/local/nccl*/lib/" + soname, "NCCL's folder"},
		place{"/opt/nvidia/nccl*/lib/" + soname, "NCCL's folder"},
	)
}

// pipPatterns are the site-packages of every Python there may be, without
// running one.
func (s search) pipPatterns() []place {
	const inside = "nvidia/nccl/lib/" + soname
	var ps []place
	add := func(from string, parts ...string) {
		p := place{filepath.Join(append(parts, inside)...), from}
		if !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	for _, dir := range filepath.SplitList(s.env("PYTHONPATH")) {
		if dir != "" {
			add("PYTHONPATH", dir)
		}
	}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := s.env(v); root != "" {
			add(v, root, "lib/python3*/site-packages")
		}
	}
	for _, dir := range filepath.SplitList(s.env("PATH")) {
		if len(s.glob(filepath.Join(dir, "python3"))) > 0 {
			root := filepath.Dir(filepath.Clean(dir))
			add("the python3 on PATH", root, "lib/python3*/site-packages")
			add("the python3 on PATH", root, "lib/python3*/dist-packages")
			add("the python3 on PATH", root, "local/lib/python3*/dist-packages")
		}
	}
	if home := s.env("HOME"); home != "" {
		add("pip --user", home, ".local/lib/python3*/site-packages")
	}
	add("pip", "/usr/local/lib/python3*/dist-packages")
	add("pip", "/usr/local/lib/python3*/site-packages")
	add("pip", "/usr/lib/python3*/site-packages")
	add("pip", "/usr/lib/python3/dist-packages")
	add("conda", "/opt/conda/lib/python3*/site-packages")
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
	return fmt.Errorf("%w; install NCCL %v or later (pip install nvidia-nccl-cu12 or -cu13, or the package libnccl2), or set DDPRUN_NCCL to its path; tried:%s",
		ErrNotFound, Oldest, b.String())
}
