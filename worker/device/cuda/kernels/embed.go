package kernels

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.ptx
var compiled embed.FS

// Modules are the names of the compiled sources, without extension.
func Modules() []string {
	paths, err := fs.Glob(compiled, "*.ptx")
	if err != nil {
		return nil // the pattern is fixed and well formed
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(p, ".ptx")
	}
	return paths
}

// PTX is the compiled text of a module.
func PTX(module string) (string, error) {
	text, err := compiled.ReadFile(module + ".ptx")
	if err != nil {
		return "", fmt.Errorf("kernels: no module %s in this binary", module)
	}
	return string(text), nil
}
