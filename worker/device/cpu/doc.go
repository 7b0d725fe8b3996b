// Package cpu is the device of a machine without a GPU: float32 in host
// memory, one goroutine, matrix products through worker/device/cpu/blas and
// element-wise loops through internal/simd.
//
// Operators run at once, so Synchronize has nothing to wait for. Memory comes
// from the system in large maps outside the Go heap and goes back to lists by
// size: a training loop allocates nothing after its first step, and the garbage
// collector neither scans tensors nor lets the heap double because of them.
//
// Users: cmd (registers it), worker.
//
// Non-goals: threads of its own (ranks are processes; only the BLAS may use
// more than one core), other element types than float32 and int32.
package cpu
