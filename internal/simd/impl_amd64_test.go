//go:build !purego

package simd

import "testing"

// bothWays runs a test on the assembly (where this machine can) and on the Go
// twins.
func bothWays(t *testing.T, test func(t *testing.T)) {
	had := useAVX2
	defer func() { useAVX2 = had }()
	if had {
		t.Run("avx2", test)
	} else {
		t.Log("this machine has no AVX2: the assembly is not tested")
	}
	useAVX2 = false
	t.Run("go", test)
}
