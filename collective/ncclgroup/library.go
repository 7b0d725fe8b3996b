package ncclgroup

import (
	"context"

	"github.com/ddprun/ddprun/nccl"
)

// library and communicator are what the group calls of package nccl, so that
// tests without a GPU can put something else there.
type library interface {
	Version() nccl.Version
	Path() string
	UniqueID() (nccl.UniqueID, error)
	initRank(ctx context.Context, size int, id nccl.UniqueID, rank int, cfg nccl.Config) (communicator, error)
}

type communicator interface {
	AllReduce(ctx context.Context, send, recv uintptr, count int, t nccl.DataType, op nccl.Op, stream uintptr) error
	Broadcast(ctx context.Context, send, recv uintptr, count int, t nccl.DataType, root int, stream uintptr) error
	AllGather(ctx context.Context, send, recv uintptr, count int, t nccl.DataType, stream uintptr) error
	ReduceScatter(ctx context.Context, send, recv uintptr, count int, t nccl.DataType, op nccl.Op, stream uintptr) error
	AsyncError() error
	Finalize(ctx context.Context) error
	Destroy() error
	Abort(ctx context.Context) error
}

// loaded is the library itself.
type loaded struct{ *nccl.Library }

func (l loaded) initRank(ctx context.Context, size int, id nccl.UniqueID, rank int, cfg nccl.Config) (communicator, error) {
	c, err := l.InitRank(ctx, size, id, rank, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}
