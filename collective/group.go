package collective

import (
	"context"
	"time"
)

// Group is a process group: a fixed set of ranks that run the same collectives
// in the same order.
//
// A collective is enqueued by its method and runs in the background; the
// returned Work tells when it is done. Operations of one group run one after
// the other in the order in which they were enqueued. Every rank must enqueue
// the same operations with the same arguments; a difference is an error that
// names both ranks (ErrMismatch), never a wrong result.
//
// A buffer belongs to the group from the call until its Work is done.
// Methods are safe for use by several goroutines, but the order of enqueueing
// must still be the same on every rank.
//
// After the first failure the group is broken: each later operation fails at
// once with the same cause.
type Group interface {
	// Rank is this process's place in the group, 0 <= Rank < Size.
	Rank() int
	// Size is the number of ranks in the group.
	Size() int
	// Backend is the short name of the implementation: "cpu", "nccl".
	Backend() string

	// AllReduce combines buf element by element over all ranks, in place. The
	// result has the same bits on every rank, and from run to run.
	AllReduce(buf Buffer, op ReduceOp) Work
	// Broadcast overwrites buf on every rank with the contents it has on root.
	Broadcast(buf Buffer, root int) Work
	// AllGather concatenates src of rank 0, 1, ... into dst on every rank.
	// dst.Count must be src.Count * Size.
	AllGather(dst, src Buffer) Work
	// ReduceScatter combines src over all ranks and leaves the rank's own
	// Size-th part in dst. src.Count must be dst.Count * Size. src is left
	// unspecified.
	ReduceScatter(dst, src Buffer, op ReduceOp) Work
	// Barrier is done when every rank has enqueued it and all earlier
	// operations of this rank are done.
	Barrier() Work

	// Abort breaks the group with cause: work in flight on this rank fails with
	// it, and peers see the connection go.
	Abort(cause error)
	// Close waits for enqueued work, then frees the group's resources.
	Close() error
}

// Work is an operation in flight.
type Work interface {
	// Wait blocks until the operation is done and returns its error, or
	// ctx's error if that comes first (the operation goes on).
	Wait(ctx context.Context) error
	// Done is closed when the operation has ended, well or not.
	Done() <-chan struct{}
	// Err is the operation's error once Done is closed, nil before.
	Err() error
	// Elapsed is the time from the start of the transfer to its end; zero
	// while it is not done.
	Elapsed() time.Duration
}
