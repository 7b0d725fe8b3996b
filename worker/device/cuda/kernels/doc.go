// Package kernels holds the CUDA kernels: `.cu` sources, the PTX that nvcc made
// of them (embedded), and their signatures. README.md is the convention that
// sources and launchers keep; `make kernels` compiles.
//
// The package is plain Go, so that tests without a GPU and without CUDA hold
// the PTX to its source (kernels.sum) and to the signatures.
//
// Users: worker/device/cuda.
//
// Non-goals: loading and launching (worker/device/cuda).
package kernels
