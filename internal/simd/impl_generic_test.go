//go:build !amd64 || purego

package simd

import "testing"

func bothWays(t *testing.T, test func(t *testing.T)) { t.Run("go", test) }
