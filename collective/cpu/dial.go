package cpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/internal/proof"
)

// keepAlive finds a machine that went away without a word in half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

const (
	dialTime  = 5 * time.Second // for one address
	dialPause = 100 * time.Millisecond
	// headStart is how long an address may take before the next is tried
	// beside it.
	headStart = 250 * time.Millisecond
)

// dialLocal connects to a rank of this machine. Its socket is open before its
// name is published, so nobody there means that the rank is gone.
func (m *mesh) dialLocal(r int, name string) error {
	c, err := (&net.Dialer{}).DialContext(m.ctx, "unix", name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: rank %d appeared and is gone", collective.ErrPeerLost, r)
	}
	if err != nil {
		return fmt.Errorf("rank %d: %w", r, err)
	}
	defer m.closeWith(c)()
	if err := m.introduce(r, c); err != nil {
		return err
	}
	return m.keep(r, c)
}

// introduce shows this rank's proof.
func (m *mesh) introduce(r int, c net.Conn) error {
	h := hello{from: m.cfg.Rank, to: r, size: m.cfg.Size, name: m.cfg.Name}
	if err := proof.Dial(c, m.cfg.Token, proof.Mesh, h.encode()); err != nil {
		return fmt.Errorf("rank %d at %s: %w", r, c.RemoteAddr(), err)
	}
	return nil
}

// dialFar connects to a rank of another machine through whichever of its
// addresses works. An address may mean another machine here than there, so it
// counts only with the proof.
func (m *mesh) dialFar(r int) error {
	text, err := m.cfg.Store.Get(m.ctx, m.key("tcp", strconv.Itoa(r)))
	if err != nil {
		return err
	}
	addrs := strings.Split(string(text), "\n")
	for {
		c, err := m.race(r, addrs)
		if err == nil {
			defer m.closeWith(c)()
			return m.keep(r, c)
		}
		m.mu.Lock()
		if m.ctx.Err() == nil {
			m.tries[r] = err
		}
		m.mu.Unlock()
		select {
		case <-m.ctx.Done():
			return err
		case <-time.After(dialPause):
		}
	}
}

// try dials one address and shows the proof.
func (m *mesh) try(r int, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive}
	c, err := d.DialContext(m.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(m.ctx, func() { _ = c.Close() })
	defer stop()
	if err := m.introduce(r, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

type attempt struct {
	c   net.Conn
	err error
}

// race tries the addresses one after the other, each with a head start, and
// returns the first connection.
func (m *mesh) race(r int, addrs []string) (net.Conn, error) {
	results := make(chan attempt, len(addrs))
	var errs []error
	for begun := 0; len(errs) < len(addrs); {
		var next <-chan time.Time
		if begun < len(addrs) {
			addr := addrs[begun]
			begun++
			m.running.Go(func() {
				c, err := m.try(r, addr)
				results <- attempt{c, err}
			})
			next = time.After(headStart)
		}
		select {
		case <-next:
		case got := <-results:
			if got.err == nil {
				late := begun - len(errs) - 1
				m.running.Go(func() { discard(results, late) })
				return got.c, nil
			}
			errs = append(errs, got.err)
		}
	}
	return nil, errors.Join(errs...)
}

// discard closes the connections that came in late.
func discard(results <-chan attempt, n int) {
	for range n {
		if late := <-results; late.c != nil {
			_ = late.c.Close()
		}
	}
}
