// Package operand checks the operands of the operators of package device for a
// device whose memory the host cannot read, and returns the geometry that the
// launch needs. It refuses what device/cpu refuses, in the same words; numbers
// inside tensors (targets, indices) are checked by the kernels.
//
// It is plain Go, so that the checks are tested without a GPU.
//
// Users: worker/device/cuda.
//
// Non-goals: launching, memory.
package operand
