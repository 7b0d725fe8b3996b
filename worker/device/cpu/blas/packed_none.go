//go:build !amd64 || purego

package blas

import "errors"

func newPacked() (Provider, error) {
	return nil, errors.New("this program has the AVX2 kernel on amd64 only, and not with the build tag purego")
}
