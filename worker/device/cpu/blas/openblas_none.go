//go:build nodl || !(linux || darwin) || !(amd64 || arm64)

package blas

import "errors"

const hint = "use a build without the tag nodl and install libopenblas0-pthread"

func candidates() []string { return nil }

func openLibrary([]string, int) (Provider, error) {
	return nil, errors.New("this program was built without the dynamic loader (tag nodl, or a platform it does not know) and cannot open libraries")
}
