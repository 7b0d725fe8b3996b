// Package cublaslt multiplies matrices with NVIDIA's cuBLASLt, which is opened
// at run time: neither its headers nor the library are needed to build. The
// few types and numbers of its interface that are used stand in lt.c; they are
// the same in cuBLAS 11.6 to 13.
//
// A Problem is a shape with everything else that selects an algorithm; the
// library's heuristics are asked once for each.
//
// Where the library is looked for is plain Go (search.go), the rest has the
// build tag cuda.
//
// Users: worker/device/cuda.
//
// Non-goals: row-major matrices, activations that the library does not have.
package cublaslt
