//go:build !cgo || !linux || nodl

package probe

import (
	"path/filepath"
	"slices"
)

// Libraries finds the libraries' files. This program was built without cgo and
// cannot open them: versions are those of the file names.
func Libraries() []Library {
	s := machineSearch()
	var out []Library
	all := append([]wanted{{"NCCL", "", []string{"libnccl.so.2"}, []string{"nvidia/nccl/lib"}, nil}}, wantedLibraries...)
	for _, w := range all {
		none := Library{Name: w.name}
		for _, soname := range w.sonames {
			found := w.candidates(s, soname)
			if len(found) > 0 && found[0] == soname {
				found = found[1:] // the loader's path, which only the loader knows
			}
			for _, dir := range append(filepath.SplitList(s.env("LD_LIBRARY_PATH")), "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib") {
				found = append(found, s.glob(filepath.Join(dir, soname))...)
			}
			if len(found) == 0 {
				none.Tried = append(none.Tried, soname+": no such file in the usual places")
				continue
			}
			none.Path = found[0]
			out = append(out, Library{Name: w.name, Path: found[0], Version: fileVersion(found[0])})
		}
		if none.Path == "" {
			out = append(out, none)
		}
	}
	return slices.Clip(out)
}
