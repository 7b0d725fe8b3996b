package ncclgroup

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/nccl"
)

// fakeNCCL stands in for the library in a process that holds all ranks. As
// NCCL does, it compares nothing: the n-th operations of all ranks meet, and
// hang if they do not fit.
type fakeNCCL struct {
	version nccl.Version
	path    string
	dev     *fakeDevice // of this rank
	world   *fakeWorld
}

// fakeWorld is what the ranks of a communicator share.
type fakeWorld struct {
	mu    sync.Mutex
	size  int
	ids   int
	here  int
	all   chan struct{} // closed when all ranks have joined
	ops   map[int]*meeting
	comms map[int]*fakeComm
}

type meeting struct {
	arrived int
	full    chan struct{}
	parts   map[int]part
	shape   string
}

type part struct {
	kind       kind
	send, recv []byte
	t          nccl.DataType
	op         nccl.Op
	root       int
}

type fakeComm struct {
	lib     *fakeNCCL
	rank    int
	n       int
	aborted chan struct{}
	once    sync.Once
	mu      sync.Mutex
	async   error
	deaf    bool // Abort never returns
	done    bool
}

func newFakeWorld(size int) *fakeWorld {
	return &fakeWorld{size: size, all: make(chan struct{}), ops: map[int]*meeting{}, comms: map[int]*fakeComm{}}
}

func (l *fakeNCCL) Version() nccl.Version { return l.version }
func (l *fakeNCCL) Path() string          { return l.path }
func (l *fakeNCCL) UniqueID() (id nccl.UniqueID, err error) {
	l.world.ids++
	id[0], id[127] = 1, 2
	return id, nil
}

func (l *fakeNCCL) initRank(ctx context.Context, size int, id nccl.UniqueID, rank int, cfg nccl.Config) (communicator, error) {
	if size != l.world.size || id[0] != 1 || id[127] != 2 {
		return nil, fmt.Errorf("size %d, id % x", size, id)
	}
	c := &fakeComm{lib: l, rank: rank, aborted: make(chan struct{})}
	l.world.mu.Lock()
	l.world.comms[rank] = c
	if l.world.here++; l.world.here == size {
		close(l.world.all)
	}
	l.world.mu.Unlock()
	select {
	case <-l.world.all:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *fakeWorld) comm(rank int) *fakeComm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.comms[rank]
}

func (c *fakeComm) enqueue(p part, send, recv uintptr, sendN, recvN int, shape string, stream uintptr) error {
	size := map[nccl.DataType]int{nccl.Uint8: 1, nccl.Int32: 4, nccl.Float32: 4, nccl.Int64: 8, nccl.Float64: 8}[p.t]
	n := c.n
	c.n++
	return c.lib.dev.put(stream, func() {
		p.send, p.recv = c.lib.dev.at(send, sendN*size), c.lib.dev.at(recv, recvN*size)
		c.meet(n, p, shape)
	})
}

// meet runs on the stream: it waits for all ranks' n-th operation.
func (c *fakeComm) meet(n int, p part, shape string) {
	w := c.lib.world
	w.mu.Lock()
	m := w.ops[n]
	if m == nil {
		m = &meeting{full: make(chan struct{}), parts: map[int]part{}, shape: shape}
		w.ops[n] = m
	}
	if m.shape == shape {
		m.parts[c.rank] = p
		if m.arrived++; m.arrived == w.size {
			m.run()
			delete(w.ops, n)
			close(m.full)
		}
	}
	w.mu.Unlock()
	select {
	case <-m.full:
	case <-c.aborted:
		w.mu.Lock()
		defer w.mu.Unlock()
		m.shape = "aborted"
	}
}

// run computes all ranks' results; all parts are there.
func (m *meeting) run() {
	n := len(m.parts)
	sends := make([][]byte, n)
	for r := range n {
		sends[r] = append([]byte(nil), m.parts[r].send...)
	}
	for r := range n {
		p := m.parts[r]
		switch p.kind {
		case broadcast:
			copy(p.recv, sends[p.root])
		case allGather:
			for k := range n {
				copy(p.recv[k*len(sends[k]):], sends[k])
			}
		case reduceScatter:
			copy(p.recv, reduced(sends, p)[r*len(p.recv):])
		default:
			copy(p.recv, reduced(sends, p))
		}
	}
}

func reduced(sends [][]byte, p part) []byte {
	switch p.t {
	case nccl.Float32:
		return reduceAs[float32](sends, p.op)
	case nccl.Float64:
		return reduceAs[float64](sends, p.op)
	case nccl.Int32:
		return reduceAs[int32](sends, p.op)
	case nccl.Int64:
		return reduceAs[int64](sends, p.op)
	}
	return reduceAs[uint8](sends, p.op)
}

func reduceAs[T collective.Element](sends [][]byte, op nccl.Op) []byte {
	var z T
	size := int(unsafe.Sizeof(z))
	out := alignedBytes(len(sends[0]))
	copy(out, sends[0])
	acc := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(out))), len(out)/size)
	for _, s := range sends[1:] {
		aligned := alignedBytes(len(s))
		copy(aligned, s)
		v := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(aligned))), len(s)/size)
		for i := range acc {
			switch op {
			case nccl.Sum:
				acc[i] += v[i]
			case nccl.Prod:
				acc[i] *= v[i]
			case nccl.Max:
				acc[i] = max(acc[i], v[i])
			case nccl.Min:
				acc[i] = min(acc[i], v[i])
			}
		}
	}
	return out
}

func (c *fakeComm) AllReduce(_ context.Context, send, recv uintptr, count int, t nccl.DataType, op nccl.Op, stream uintptr) error {
	return c.enqueue(part{kind: allReduce, t: t, op: op}, send, recv, count, count, fmt.Sprint("reduce", count, t), stream)
}

func (c *fakeComm) Broadcast(_ context.Context, send, recv uintptr, count int, t nccl.DataType, root int, stream uintptr) error {
	return c.enqueue(part{kind: broadcast, t: t, root: root}, send, recv, count, count, fmt.Sprint("broadcast", count, t, root), stream)
}

func (c *fakeComm) AllGather(_ context.Context, send, recv uintptr, count int, t nccl.DataType, stream uintptr) error {
	return c.enqueue(part{kind: allGather, t: t}, send, recv, count, count*c.lib.world.size, fmt.Sprint("gather", count, t), stream)
}

func (c *fakeComm) ReduceScatter(_ context.Context, send, recv uintptr, count int, t nccl.DataType, op nccl.Op, stream uintptr) error {
	return c.enqueue(part{kind: reduceScatter, t: t, op: op}, send, recv, count*c.lib.world.size, count, fmt.Sprint("scatter", count, t), stream)
}

func (c *fakeComm) AsyncError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.async
}

func (c *fakeComm) setAsync(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.async = err
}

func (c *fakeComm) Finalize(ctx context.Context) error { return ctx.Err() }

func (c *fakeComm) Destroy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	return nil
}

func (c *fakeComm) Abort(ctx context.Context) error {
	c.mu.Lock()
	deaf := c.deaf
	c.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	c.once.Do(func() { close(c.aborted) })
	return nil
}
