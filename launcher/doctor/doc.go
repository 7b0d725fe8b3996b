// Package doctor says whether a machine is fit to train, what is wrong with it
// and what to do about it.
//
// Gather collects Facts; Examine turns them into Findings and touches nothing,
// so that every rule is a line in a table of tests. Quick is the part of
// Examine that a launch on GPUs makes before its ranks start.
//
// Users: cmd/ddprun.
//
// Non-goals: asking the driver (probe), CUDA_VISIBLE_DEVICES (visible),
// repairing, watching a run.
package doctor
