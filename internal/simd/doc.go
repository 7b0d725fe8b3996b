// Package simd has the float32 vector loops of CPU training and of reductions
// between ranks. On amd64 with AVX2 and FMA they are assembly, elsewhere (and
// with the build tag purego) plain Go; the choice is made once, at start.
//
// Users: worker/device/cpu, worker/optim, collective/cpu.
//
// Rules of every function: the destination comes first; the shortest slice
// sets the length, so nothing panics and nothing is written past an end
// (callers check shapes); any length and any alignment will do; a destination
// may be the very same slice as a source, but must not overlap one otherwise.
// A function gives the same bits for the same input on the same kind of
// machine. Nothing here allocates or starts a goroutine.
//
// Non-goals: matrix products (worker/device/cpu/blas), shapes, threads.
package simd

//go:generate go run -C gen . -simd .. -blas ../../../worker/device/cpu/blas
