package nccl

import (
	"context"
	"fmt"
)

// The collectives below enqueue their work on a CUDA stream and return when it
// is enqueued, not when it is done. Buffers are device addresses, counts are in
// elements. ctx bounds the enqueueing, which takes long only where ranks
// connect for the first time.

// AllReduce combines send over all ranks into recv, which may be send.
func (c *Comm) AllReduce(ctx context.Context, send, recv uintptr, count int, t DataType, op Op, stream uintptr) error {
	return c.call(ctx, "ncclAllReduce", func() Result { return c.lib.api.allReduce(c.raw, send, recv, count, t, op, stream) })
}

// Broadcast copies root's send into everyone's recv; only root's send counts.
func (c *Comm) Broadcast(ctx context.Context, send, recv uintptr, count int, t DataType, root int, stream uintptr) error {
	return c.call(ctx, "ncclBroadcast", func() Result { return c.lib.api.broadcast(c.raw, send, recv, count, t, root, stream) })
}

// Reduce combines send over all ranks into root's recv.
func (c *Comm) Reduce(ctx context.Context, send, recv uintptr, count int, t DataType, op Op, root int, stream uintptr) error {
	return c.call(ctx, "ncclReduce", func() Result { return c.lib.api.reduce(c.raw, send, recv, count, t, op, root, stream) })
}

// AllGather puts send of rank k, count elements, at recv + k*count. In place,
// send is this rank's part of recv.
func (c *Comm) AllGather(ctx context.Context, send, recv uintptr, count int, t DataType, stream uintptr) error {
	return c.call(ctx, "ncclAllGather", func() Result { return c.lib.api.allGather(c.raw, send, recv, count, t, stream) })
}

// ReduceScatter combines send, size*count elements, over all ranks and leaves
// this rank's part in recv, count elements. In place, recv is this rank's part
// of send.
func (c *Comm) ReduceScatter(ctx context.Context, send, recv uintptr, count int, t DataType, op Op, stream uintptr) error {
	return c.call(ctx, "ncclReduceScatter", func() Result { return c.lib.api.reduceScatter(c.raw, send, recv, count, t, op, stream) })
}

// Send sends count elements to peer, which must call Recv. Several that must
// make progress together go into one Library.Group.
func (c *Comm) Send(ctx context.Context, send uintptr, count int, t DataType, peer int, stream uintptr) error {
	return c.call(ctx, "ncclSend", func() Result { return c.lib.api.send(c.raw, send, count, t, peer, stream) })
}

// Recv receives count elements from peer.
func (c *Comm) Recv(ctx context.Context, recv uintptr, count int, t DataType, peer int, stream uintptr) error {
	return c.call(ctx, "ncclRecv", func() Result { return c.lib.api.recv(c.raw, recv, count, t, peer, stream) })
}

// PreMulSum makes a reduction that multiplies each rank's elements of type t,
// a floating-point type, by factor before they are added. DropOp frees it.
func (c *Comm) PreMulSum(factor float64, t DataType) (Op, error) {
	bits, err := scalar(factor, t)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return 0, fmt.Errorf("ncclRedOpCreatePreMulSum: %w", ErrAborted)
	}
	op, r := c.lib.api.redOpCreatePreMulSum(c.raw, bits, t)
	return op, c.lib.check("ncclRedOpCreatePreMulSum", r, &c.raw)
}

// DropOp frees a reduction of PreMulSum; collectives that use it may still
// run.
func (c *Comm) DropOp(op Op) error {
	return c.call(context.Background(), "ncclRedOpDestroy", func() Result { return c.lib.api.redOpDestroy(c.raw, op) })
}

// Register makes a buffer known, so that collectives on it need no copy; NCCL
// 2.19. The handle goes to Deregister.
func (c *Comm) Register(at uintptr, bytes int) (handle uintptr, err error) {
	if !c.lib.api.hasRegister() {
		return 0, unsupported(c.lib, "ncclCommRegister", 21900)
	}
	err = c.call(context.Background(), "ncclCommRegister", func() (r Result) {
		handle, r = c.lib.api.commRegister(c.raw, at, bytes)
		return r
	})
	return handle, err
}

// Deregister undoes Register.
func (c *Comm) Deregister(handle uintptr) error {
	if !c.lib.api.hasRegister() {
		return unsupported(c.lib, "ncclCommDeregister", 21900)
	}
	return c.call(context.Background(), "ncclCommDeregister", func() Result { return c.lib.api.commDeregister(c.raw, handle) })
}

// Symmetric, as RegisterWindow's flags: the buffer lies at the same offset of
// its window on every rank (NCCL_WIN_COLL_SYMMETRIC).
const Symmetric = 1

// RegisterWindow is Register for all ranks together, each with a buffer of the
// same size; NCCL 2.27. NCCL stores the window's handle before it returns only
// in a Blocking communicator, so others are refused.
func (c *Comm) RegisterWindow(at uintptr, bytes, flags int) (window uintptr, err error) {
	if !c.lib.api.hasWindow() {
		return 0, unsupported(c.lib, "ncclCommWindowRegister", 22700)
	}
	if !c.blocking {
		return 0, fmt.Errorf("ncclCommWindowRegister: %w: only on a communicator with Config.Blocking", InvalidUsage)
	}
	err = c.call(context.Background(), "ncclCommWindowRegister", func() (r Result) {
		window, r = c.lib.api.commWindowRegister(c.raw, at, bytes, flags)
		return r
	})
	return window, err
}

// DeregisterWindow undoes RegisterWindow.
func (c *Comm) DeregisterWindow(window uintptr) error {
	if !c.lib.api.hasWindow() {
		return unsupported(c.lib, "ncclCommWindowDeregister", 22700)
	}
	return c.call(context.Background(), "ncclCommWindowDeregister", func() Result { return c.lib.api.commWindowDeregister(c.raw, window) })
}
