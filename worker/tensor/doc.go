// Package tensor describes a block of numbers: its shape, its element type and
// where its memory lies. It computes nothing and allocates nothing.
//
// Memory comes from a device (worker/device) and is counted: a tensor and its
// views share one Storage, which goes back to its device when the last of them
// is released. Device memory is never left to the garbage collector.
//
// Users: worker/device and everything above it.
//
// Non-goals: arithmetic, differentiation, strides other than row-major.
package tensor
