// Package nccl binds NVIDIA's collective library. libnccl.so.2 is opened at
// run time (see Open for where it is looked for); no header and no package of
// NVIDIA's is needed to build, and nothing is needed to build without cgo,
// where Open returns an error.
//
// The raw layer (raw_linux.h, raw_linux.c, raw_linux.go) is 1:1: one function
// pointer for each of NCCL's functions, declared by us for NCCL 2.18 and
// later. What an older library lacks is ErrUnsupported with the version that
// has it. On it stand Library, Comm and Result.
//
// Threads: a call that starts work (InitRank, collectives) must come from a
// goroutine that holds its OS thread (runtime.LockOSThread) with the CUDA
// context of the rank's device current. Abort and AsyncError may come from
// anywhere at any time.
//
// Users: collective/ncclgroup, launcher's doctor (version).
//
// Non-goals: CUDA itself (pointers and streams come as uintptr), process
// groups, time-outs of operations.
package nccl
