//go:build cuda

package ncclgroup

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/collectivetest"
)

// pool holds the child processes between groups: starting CUDA takes longer
// than most tests.
type pool struct {
	children []*remote
	opened   int
}

// remote is a child process, and its end of the current group.
type remote struct {
	cmd     *exec.Cmd
	in      *gob.Encoder
	ended   chan struct{} // the reader has ended
	replies chan reply    // to open, abort, close

	rank, size int
	mu         sync.Mutex // orders requests and works alike
	works      []*remoteWork
	cause      error
	alone      sync.Mutex // one abort or close at a time
	gone       bool
}

func newPool(t *testing.T) *pool {
	p := &pool{}
	t.Cleanup(func() {
		for _, c := range p.children {
			c.kill()
		}
	})
	return p
}

// child returns the i-th process, alive.
func (p *pool) child(t *testing.T, i int) *remote {
	t.Helper()
	for len(p.children) <= i {
		p.children = append(p.children, nil)
	}
	c := p.children[i]
	if c != nil && !c.gone {
		select {
		case <-c.ended: // it crashed
			c.kill()
		default:
			return c
		}
	}
	p.children[i] = spawn(t, i)
	return p.children[i]
}

func spawn(t *testing.T, i int) *remote {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", fmt.Sprintf("NCCL_HOSTID=ddprun-test-%d", i), "NCCL_SOCKET_IFNAME=lo")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &remote{cmd: cmd, in: gob.NewEncoder(stdin), ended: make(chan struct{}), replies: make(chan reply, 4)}
	go func() {
		defer close(c.ended)
		c.read(gob.NewDecoder(stdout))
	}()
	return c
}

func (c *remote) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.cmd.Wait()
	c.gone = true
}

func (c *remote) read(in *gob.Decoder) {
	for {
		var r reply
		if err := in.Decode(&r); err != nil {
			c.mu.Lock()
			for _, w := range c.works {
				w.end(reply{Fail: &remoteError{Text: "the process is gone"}}, c.cause)
			}
			c.works = nil
			c.mu.Unlock()
			close(c.replies)
			return
		}
		if !r.Op {
			c.replies <- r
			continue
		}
		c.mu.Lock()
		w, cause := c.works[0], c.cause
		c.works = c.works[1:]
		c.mu.Unlock()
		w.end(r, cause)
	}
}

// ask sends a request and returns the child's reply.
func (c *remote) ask(r request) reply {
	c.alone.Lock()
	defer c.alone.Unlock()
	c.mu.Lock()
	err := c.in.Encode(r)
	c.mu.Unlock()
	if err != nil {
		return reply{Fail: &remoteError{Text: err.Error()}}
	}
	answer, ok := <-c.replies
	if !ok {
		return reply{Fail: &remoteError{Text: "the process is gone; its words are above"}}
	}
	return answer
}

// openIn returns an Open whose groups live in the pool's processes.
func (p *pool) openIn(device bool, timeout time.Duration) collectivetest.Open {
	return func(t *testing.T, size int) []collective.Group {
		t.Helper()
		if limit := os.Getenv("DDPRUN_NCCL_TEST_RANKS"); limit != "" && fmt.Sprint(size) > limit {
			t.Skipf("DDPRUN_NCCL_TEST_RANKS is %s", limit)
		}
		server := newStore(t)
		p.opened++
		groups := make([]collective.Group, size)
		fails := make([]*remoteError, size)
		var wg sync.WaitGroup
		for r := range size {
			c := p.child(t, r)
			c.rank, c.size, c.cause = r, size, nil
			groups[r] = c
			wg.Go(func() {
				fails[r] = c.ask(request{Open: &openRequest{
					Rank: r, Size: size, Store: server.Addr(), Name: fmt.Sprintf("test-%d", p.opened), Timeout: timeout, Device: device,
				}}).Fail
			})
		}
		wg.Wait()
		for r, f := range fails {
			if f != nil {
				t.Fatalf("rank %d: %s", r, f.Text)
			}
		}
		return groups
	}
}

func (c *remote) Rank() int       { return c.rank }
func (c *remote) Size() int       { return c.size }
func (c *remote) Backend() string { return "nccl" }

func (c *remote) AllReduce(b collective.Buffer, op collective.ReduceOp) collective.Work {
	return c.enqueue(opRequest{Kind: int(allReduce), Reduce: op}, b, b)
}

func (c *remote) Broadcast(b collective.Buffer, root int) collective.Work {
	return c.enqueue(opRequest{Kind: int(broadcast), Root: root}, b, b)
}

func (c *remote) AllGather(dst, src collective.Buffer) collective.Work {
	return c.enqueue(opRequest{Kind: int(allGather)}, dst, src)
}

func (c *remote) ReduceScatter(dst, src collective.Buffer, op collective.ReduceOp) collective.Work {
	return c.enqueue(opRequest{Kind: int(reduceScatter), Reduce: op}, dst, src)
}

func (c *remote) Barrier() collective.Work {
	return c.enqueue(opRequest{Kind: int(barrier)}, collective.Buffer{}, collective.Buffer{})
}

func (c *remote) Abort(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.ask(request{Abort: cause.Error()})
}

func (c *remote) Close() error {
	if f := c.ask(request{Close: true}).Fail; f != nil && !c.gone {
		return errors.New(f.Text)
	}
	return nil
}

func (c *remote) enqueue(r opRequest, dst, src collective.Buffer) collective.Work {
	w := &remoteWork{done: make(chan struct{}), dst: dst, at: 0}
	d, s := bytesOf(dst), bytesOf(src)
	r.Dst, r.Src = viewOf(dst), viewOf(src)
	pd, ps := uintptr(dst.Ptr), uintptr(src.Ptr)
	switch {
	case len(d) > 0 && len(s) > 0 && ps >= pd && ps+uintptr(len(s)) <= pd+uintptr(len(d)): // src lies in dst
		r.Arena, r.Src.Offset = d, int(ps-pd)
	case len(d) > 0 && len(s) > 0 && pd >= ps && pd+uintptr(len(d)) <= ps+uintptr(len(s)): // dst lies in src
		r.Arena, r.Dst.Offset = s, int(pd-ps)
	default:
		const align = 16
		r.Src.Offset = (len(d) + align - 1) / align * align
		r.Arena = make([]byte, r.Src.Offset+len(s)+align) // an arena is never empty
		copy(r.Arena, d)
		copy(r.Arena[r.Src.Offset:], s)
	}
	w.at = r.Dst.Offset
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.in.Encode(request{Op: &r}); err != nil {
		w.end(reply{Fail: &remoteError{Text: err.Error()}}, nil)
		return w
	}
	c.works = append(c.works, w)
	return w
}

func bytesOf(b collective.Buffer) []byte {
	if b.Ptr == nil || b.Count <= 0 || b.DType.Size() == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.Ptr), b.Bytes())
}

func viewOf(b collective.Buffer) view {
	return view{Count: b.Count, DType: b.DType, Place: b.Place, Nil: b.Ptr == nil}
}

type remoteWork struct {
	dst     collective.Buffer
	at      int // of dst in the arena
	done    chan struct{}
	err     error
	elapsed time.Duration
}

// theirError is a child's error, with its identities.
type theirError struct {
	text string
	is   []error
}

func (e *theirError) Error() string   { return e.text }
func (e *theirError) Unwrap() []error { return e.is }

func (w *remoteWork) end(r reply, cause error) {
	if f := r.Fail; f != nil {
		e := &theirError{text: f.Text}
		for _, i := range f.Is {
			e.is = append(e.is, identities[i])
		}
		if f.Cause {
			e.is = append(e.is, cause)
		}
		w.err = e
	} else {
		copy(bytesOf(w.dst), r.Arena[w.at:])
	}
	w.elapsed = r.Elapsed
	close(w.done)
}

func (w *remoteWork) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *remoteWork) Done() <-chan struct{} { return w.done }

func (w *remoteWork) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

func (w *remoteWork) Elapsed() time.Duration {
	select {
	case <-w.done:
		return w.elapsed
	default:
		return 0
	}
}
