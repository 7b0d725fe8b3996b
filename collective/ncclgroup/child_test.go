//go:build cuda

package ncclgroup

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/nccl"
)

// A GPU test runs each rank in a process of its own, as NCCL wants it: the
// test binary starts itself. The parent sends requests, the child replies and
// reports the ends of operations, in their order.

const childVariable = "DDPRUN_NCCL_TEST_CHILD"

type request struct {
	Open  *openRequest
	Op    *opRequest
	Abort string // the cause
	Close bool
}

type openRequest struct {
	Rank, Size  int
	Store, Name string
	Timeout     time.Duration
	Device      bool // buffers go to the GPU, not through host memory
}

// opRequest has both buffers in one arena, so that overlaps survive.
type opRequest struct {
	Kind     int
	Reduce   collective.ReduceOp
	Root     int
	Arena    []byte
	Dst, Src view
}

type view struct {
	Count, Offset int
	DType         collective.DType
	Place         collective.Place
	Nil           bool
}

type reply struct {
	Open, Abort, Close bool // replies to what was asked
	Op                 bool // the end of the oldest operation
	Arena              []byte
	Elapsed            time.Duration
	Fail               *remoteError
}

// remoteError carries an error with the identities that tests ask for.
type remoteError struct {
	Text  string
	Is    []int // indices of identities
	Cause bool  // it wraps Abort's cause
}

var identities = []error{
	collective.ErrMismatch, collective.ErrPeerLost, collective.ErrTimeout, collective.ErrClosed, collective.ErrInvalid,
	context.DeadlineExceeded, context.Canceled,
}

func init() {
	asChild = func() {
		if os.Getenv(childVariable) == "" {
			return
		}
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// child is one rank's process.
type child struct {
	dev    *driver
	upload uintptr // a stream that no collective holds up
	lib    *nccl.Library
	client *store.Client
	out    *gob.Encoder
	mu     sync.Mutex
	group  collective.Group
	device bool
	cause  error
	ends   chan func() reply
}

func runChild() error {
	dev, err := openDriver()
	if err != nil {
		return err
	}
	lib, err := nccl.Open()
	if err != nil {
		return err
	}
	upload, err := dev.NewStream()
	if err != nil {
		return err
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr // NCCL's log must not mix with replies
	c := &child{dev: dev, upload: upload, lib: lib, out: gob.NewEncoder(stdout)}
	in := gob.NewDecoder(os.Stdin)
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			return nil // the parent is through
		}
		switch {
		case r.Open != nil:
			c.send(reply{Open: true, Fail: c.identify(c.open(*r.Open))})
		case r.Op != nil:
			c.enqueue(*r.Op)
		case r.Abort != "":
			if c.cause == nil {
				c.cause = errors.New(r.Abort)
			}
			g := c.group
			go func() {
				g.Abort(c.cause)
				c.send(reply{Abort: true})
			}()
		case r.Close:
			g := c.group
			go func() { c.send(reply{Close: true, Fail: c.identify(g.Close())}) }()
		}
	}
}

func (c *child) send(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Encode(r); err != nil {
		os.Exit(2)
	}
}

func (c *child) identify(err error) *remoteError {
	if err == nil {
		return nil
	}
	e := &remoteError{Text: err.Error(), Cause: c.cause != nil && errors.Is(err, c.cause)}
	for i, id := range identities {
		if errors.Is(err, id) {
			e.Is = append(e.Is, i)
		}
	}
	return e
}

func (c *child) open(r openRequest) error {
	if c.ends != nil {
		close(c.ends)
	}
	if c.client != nil {
		_ = c.client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if c.client, err = store.Dial(ctx, r.Store, token); err != nil {
		return err
	}
	c.cause, c.device, c.ends = nil, r.Device, make(chan func() reply, 1000)
	c.group, err = New(ctx, Config{
		Rank: r.Rank, Size: r.Size, Store: c.client, Device: c.dev, Library: c.lib, Name: r.Name, Timeout: r.Timeout,
		Warn: func(text string) { fmt.Fprintln(os.Stderr, "warning:", text) },
	})
	go func(ends chan func() reply) {
		for end := range ends {
			c.send(end())
		}
	}(c.ends)
	return err
}

// enqueue starts an operation and leaves its end to the reporter.
func (c *child) enqueue(r opRequest) {
	arena := r.Arena
	base := unsafe.Pointer(unsafe.SliceData(arena))
	var addr uintptr
	if c.device && len(arena) > 0 {
		var err error
		if addr, err = c.dev.Alloc(len(arena)); err == nil {
			err = errors.Join(c.dev.CopyToDevice(addr, arena, c.upload), c.dev.synchronize(c.upload))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "staging a test's buffer:", err)
			os.Exit(3)
		}
		base = *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	}
	dst, src := c.buffer(base, r.Dst), c.buffer(base, r.Src)
	var w collective.Work
	switch kind(r.Kind) {
	case allReduce:
		w = c.group.AllReduce(dst, r.Reduce)
	case broadcast:
		w = c.group.Broadcast(dst, r.Root)
	case allGather:
		w = c.group.AllGather(dst, src)
	case reduceScatter:
		w = c.group.ReduceScatter(dst, src, r.Reduce)
	default:
		w = c.group.Barrier()
	}
	c.ends <- func() reply {
		err := w.Wait(context.Background())
		if err == nil && c.device {
			if addr != 0 {
				err = errors.Join(c.dev.CopyToHost(arena, addr, c.dev.compute), c.dev.synchronize(c.dev.compute))
			}
			<-w.Done()
			err = errors.Join(err, w.Err())
		}
		if addr != 0 && err == nil { // after a failure the device may still use it
			_ = c.dev.Free(addr)
		}
		return reply{Op: true, Arena: arena, Elapsed: w.Elapsed(), Fail: c.identify(err)}
	}
}

func (c *child) buffer(base unsafe.Pointer, v view) collective.Buffer {
	b := collective.Buffer{Count: v.Count, DType: v.DType, Place: v.Place}
	if b.Place == collective.Host && c.device {
		b.Place = collective.CUDA
	}
	if !v.Nil && base != nil {
		b.Ptr = unsafe.Add(base, v.Offset)
	}
	return b
}
