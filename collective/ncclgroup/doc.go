// Package ncclgroup is the process group for buffers in GPU memory: the
// collectives of package collective over NCCL, one GPU per process.
//
// Users: worker (through cmd/ddpworker, which registers it), the benchmark
// command.
//
// A group has a stream of its own. A collective on device memory waits, on the
// device, for what the compute stream holds when it is called; Work.Wait makes
// the compute stream wait for it in turn, so that a step never waits on the
// host. Host buffers, which training needs for small things, go through pinned
// memory and are waited for on the host. One goroutine that keeps its OS
// thread makes all calls that start work (executor.go); a watchdog looks for
// errors and deadlines; what breaks one rank is told to the others through the
// store (board.go), and a deadline that passed is explained by what each rank
// says it is doing (verdict.go).
//
// Several ranks can share one GPU for tests: give each process a NCCL_HOSTID
// of its own and set NCCL_SOCKET_IFNAME=lo.
//
// Non-goals: CUDA (see Device), tensors, changing the set of ranks.
package ncclgroup
