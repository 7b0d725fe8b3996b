package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ddprun/ddprun/collective/internal/proof"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// Client is a Store over one connection. Calls that wait do not hold up
// others.
type Client struct {
	addr string
	conn net.Conn
	done chan struct{} // closed when the connection has ended

	send sync.Mutex // one frame at a time

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan reply
	cause   error // why the connection ended
}

type reply struct {
	status status
	value  []byte
}

var _ Store = (*Client)(nil)

// Dial connects to the store at addr, trying again while nobody listens there,
// until ctx ends. It fails at once, with exit class Rendezvous, when something
// else answers (ErrNotStore) or the token is refused (ErrNotAdmitted).
func Dial(ctx context.Context, addr, token string) (*Client, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, exitcode.With(fmt.Errorf("store: address %q: %w", addr, err), exitcode.Usage)
	}
	begin := time.Now()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		conn, err := connect(ctx, addr, token)
		if err == nil {
			return newClient(addr, conn), nil
		}
		if !temporary(err) {
			return nil, exitcode.With(fmt.Errorf("store at %s: %w", addr, err), exitcode.Rendezvous)
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("store at %s: no connection within %v: %w (last try: %w)",
				addr, time.Since(begin).Round(10*time.Millisecond), context.Cause(ctx), err)
			return nil, exitcode.With(err, exitcode.Rendezvous)
		case <-time.After(pause):
		}
	}
}

// connect makes one attempt.
func connect(ctx context.Context, addr, token string) (net.Conn, error) {
	// A machine that is down does not answer at all: an attempt must end
	// before the caller's patience does, so that the next one can succeed.
	try, cancel := context.WithTimeout(ctx, proof.Timeout)
	defer cancel()
	conn, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(try, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if selfConnected(conn) {
		_ = conn.Close()
		return nil, syscall.ECONNREFUSED
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = proof.Dial(conn, token, proof.Store, nil)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return conn, nil
	}
	_ = conn.Close()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, proof.ErrStranger):
		return nil, fmt.Errorf("%w: %w", ErrNotStore, err)
	case errors.Is(err, proof.ErrToken):
		return nil, fmt.Errorf("%w: %w (is the token that of this job?)", ErrNotAdmitted, err)
	}
	return nil, err
}

// selfConnected: a dial to a free local port of the ephemeral range can meet
// itself (simultaneous open), and then no server can ever bind there.
func selfConnected(c net.Conn) bool {
	return c.LocalAddr().String() == c.RemoteAddr().String()
}

// temporary says whether another attempt may succeed: a server that is not up
// yet, or a connection cut while it came up or went down.
func temporary(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTemporary || dns.IsTimeout || dns.IsNotFound // names of nodes may appear late
	}
	return !errors.Is(err, ErrNotStore) && !errors.Is(err, ErrNotAdmitted) && !isAddrError(err)
}

func isAddrError(err error) bool {
	var ae *net.AddrError
	return errors.As(err, &ae)
}

func newClient(addr string, conn net.Conn) *Client {
	c := &Client{addr: addr, conn: conn, done: make(chan struct{}), pending: map[uint64]chan reply{}}
	go c.read()
	return c
}

// Done is closed when the connection to the server has ended, from either
// side. Every call then returns ErrClosed.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection; calls under way return ErrClosed. It returns when
// nothing of the client runs any more.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = errors.New("closed by this process")
	}
	c.mu.Unlock()
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) read() {
	r := bufio.NewReaderSize(c.conn, readBufSize)
	var f frame
	for {
		if err := readFrame(r, &f); err != nil {
			c.end(err)
			return
		}
		var value []byte
		if len(f.fields) > 0 {
			value = f.fields[0]
		}
		c.mu.Lock()
		answer, ok := c.pending[f.id]
		delete(c.pending, f.id)
		c.mu.Unlock()
		if ok { // a cancelled call's reply may still come
			answer <- reply{status(f.code), value}
		}
	}
}

func (c *Client) end(err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the connection")
	}
	c.mu.Lock()
	if c.cause == nil {
		c.cause = err
	}
	c.mu.Unlock()
	_ = c.conn.Close()
	close(c.done)
}

// ended is the error of calls after the end of the connection.
func (c *Client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("store at %s: %w: %w", c.addr, ErrClosed, c.cause)
}

// call sends one request and waits for its reply.
func (c *Client) call(ctx context.Context, op opcode, fields ...[]byte) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.pending[id] = answer
	c.mu.Unlock()

	if err := c.write(appendFrame(nil, id, byte(op), fields...)); err != nil {
		<-c.done
		return reply{}, c.ended()
	}
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		c.abandon(id, op)
		return reply{}, ctx.Err()
	case <-c.done:
		select {
		case r := <-answer: // it came just before the end
			return r, nil
		default:
			return reply{}, c.ended()
		}
	}
}

func (c *Client) write(b []byte) error {
	c.send.Lock()
	defer c.send.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := c.conn.Write(b)
	if err != nil {
		_ = c.conn.Close() // half a frame may be out: nothing can follow it
	}
	return err
}

// abandon forgets a call, here and on the server.
func (c *Client) abandon(id uint64, op opcode) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
	if op == opGet || op == opWait {
		_ = c.write(appendFrame(nil, id, byte(opCancel)))
	}
}

// checked turns the server's refusal into an error and names the call.
func (c *Client) checked(r reply, err error, what string, keys ...string) (reply, error) {
	switch {
	case err != nil:
		return r, fmt.Errorf("%s %s: %w", what, listed(keys), err)
	case r.status == statusInvalid:
		return r, fmt.Errorf("%s: %s", what, r.value)
	case r.status != statusDone && r.status != statusNo:
		return r, fmt.Errorf("%s %s: %w: unknown status %d", what, listed(keys), errFrame, r.status)
	}
	return r, nil
}

// Set implements Store.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	if err := checkValue(key, value); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	r, err := c.call(ctx, opSet, []byte(key), value)
	_, err = c.checked(r, err, "set", key)
	return err
}

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	r, err := c.call(ctx, opGet, []byte(key))
	r, err = c.checked(r, err, "get", key)
	return r.value, err
}

// Wait implements Store.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := checkKeys(keys); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	fields := make([][]byte, len(keys))
	size := 0
	for i, k := range keys {
		fields[i] = []byte(k)
		size += len(k) + binary.MaxVarintLen32
	}
	if size > maxFrame-minFrame {
		return fmt.Errorf("wait: %d keys with %d bytes are too many for one call", len(keys), size)
	}
	r, err := c.call(ctx, opWait, fields...)
	_, err = c.checked(r, err, "wait for", keys...)
	return err
}

// Add implements Store.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, fmt.Errorf("add: %w", err)
	}
	r, err := c.call(ctx, opAdd, []byte(key), binary.BigEndian.AppendUint64(nil, uint64(delta)))
	if r, err = c.checked(r, err, "add to", key); err != nil {
		return 0, err
	}
	sum, err := strconv.ParseInt(string(r.value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("add to %q: %w: %w", key, errFrame, err)
	}
	return sum, nil
}

// CompareAndSet implements Store.
func (c *Client) CompareAndSet(ctx context.Context, key string, expected, desired []byte) ([]byte, bool, error) {
	if err := checkValue(key, desired); err != nil {
		return nil, false, fmt.Errorf("compare-and-set: %w", err)
	}
	if len(expected) > MaxValue {
		return nil, false, fmt.Errorf("compare-and-set: the expected value of %q is longer than %d bytes", key, MaxValue)
	}
	var exists []byte
	if expected != nil {
		exists = []byte{1}
	}
	r, err := c.call(ctx, opCompareAndSet, []byte(key), exists, expected, desired)
	if r, err = c.checked(r, err, "compare-and-set", key); err != nil {
		return nil, false, err
	}
	return r.value, r.status == statusDone, nil
}

// Delete implements Store.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, fmt.Errorf("delete: %w", err)
	}
	r, err := c.call(ctx, opDelete, []byte(key))
	r, err = c.checked(r, err, "delete", key)
	return r.status == statusDone, err
}
