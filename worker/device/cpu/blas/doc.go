// Package blas multiplies single-precision matrices on the CPU, through the
// best of three providers: OpenBLAS opened at run time (no cgo needed), the
// project's own AVX2 kernel, and gonum.
//
// Users: worker/device/cpu.
//
// The build tag nodl leaves the dynamic loader out: with CGO_ENABLED=0 the
// binary is then static, and OpenBLAS is not available.
//
// Non-goals: other precisions, other BLAS routines, batches (a loop over
// slices costs about 0.2 µs a call).
package blas
