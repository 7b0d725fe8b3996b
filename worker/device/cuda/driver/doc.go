// Package driver is the CUDA driver in the shape that worker/device/cuda needs:
// the primary context of one GPU, streams, events, device and pinned memory,
// modules, launches and graphs. It is the only importer of gorgonia.org/cu and
// exists only with the build tag cuda.
//
// A CUDA context is current per OS thread, and a goroutine changes threads
// between two calls into C. So every call makes the context current on the
// thread it runs on: calls of gorgonia.org/cu while the goroutine keeps its
// thread, calls of a step (driver.c) inside the one call into C. Every method
// may therefore be called from any goroutine.
//
// gorgonia.org/cu calls cuInit when the program starts and ends the process
// without a driver: what links this package is a program for machines with a
// GPU.
//
// Users: worker/device/cuda.
//
// Non-goals: tensors, policy.
package driver
