// Package device is the seam between the training engine and the hardware: the
// interface of a device, its memory and its operators.
//
// Operators are coarse (a matrix product with its bias and activation, a whole
// attention, a whole optimiser step), so that a device can fuse them and a step
// needs few launches. Each is enqueued: it may still run when the call returns,
// in the order of the calls; only Download and Synchronize wait. Every device
// implements the same set, and worker/device/devicetest holds each against
// plain loops.
//
// Users: worker/nn, worker/ddp, worker/optim. Implementations: device/cpu,
// device/cuda (build tag cuda).
//
// Non-goals: differentiation (worker/nn), communication (collective).
package device
