// Package collective lets the ranks of a job work on one buffer together: it
// defines the process group, the handle of an operation in flight, and what a
// buffer is.
//
// Users: the training engine (worker/ddp), the benchmark command, and any
// program that wants collectives without the trainer.
//
// Backends live in sub-packages (collective/cpu, collective/ncclgroup) and are
// proved by one suite, collective/collectivetest. Ranks meet through
// collective/store.
//
// Non-goals: tensors, gradients, averaging policy, starting processes.
package collective
