// Package nn is the network: reverse-mode differentiation over a device's
// coarse operators, the layers of a job file, and the models made of them.
//
// A Tape records the operators of one forward pass; Backward walks them in
// reverse, writes each parameter's gradient into Param.Grad and calls OnGrad
// the moment it is final, so that its exchange can start while backward goes
// on. Memory of an activation is given back as soon as backward has passed it.
//
// The first error of a pass sticks to the tape: later calls do nothing, and
// Err reports it.
//
// Users: worker (the training loop), worker/ddp (parameters and gradients),
// worker/optim.
//
// Non-goals: communication, updates, where samples come from.
package nn
