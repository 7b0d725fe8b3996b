//go:build !purego

package simd

import "golang.org/x/sys/cpu"

// useAVX2 is written at start (and by tests, to run the Go twins).
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA
