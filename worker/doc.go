// Package worker is the life of one rank of a training job, from meeting the
// other ranks to the last checkpoint. run.go reads from top to bottom in the
// order in which a sample travels.
//
// Which devices and process groups exist is decided by the command that links
// them in (Backends): this package knows only the seams.
//
// Users: cmd/ddprun (CPU) and cmd/ddpworker (CUDA).
//
// Non-goals: starting processes, choosing ranks, restarting (launcher).
package worker
