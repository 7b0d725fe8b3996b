package cpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/internal/proof"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// mesh is a group while it connects: every rank dials the ranks below it and
// accepts those above it.
type mesh struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	cause error   // the first failure of this rank's own
	cards []*card // by rank; nil: has not appeared
	tries []error // by rank: why the last dial failed
	fds   []int   // by rank; -1: not connected
	taken []bool
	left  int
	full  chan struct{} // closed when left is 0
}

// fail ends the connecting.
func (m *mesh) fail(err error) {
	m.mu.Lock()
	if m.cause == nil && m.ctx.Err() == nil {
		m.cause = err
	}
	m.mu.Unlock()
	m.stop()
}

// connectAll returns the non-blocking socket to each other rank.
func connectAll(ctx context.Context, cfg Config) ([]int, error) {
	within, stop := context.WithTimeout(ctx, cfg.Timeout)
	m := &mesh{
		cfg: cfg, ctx: within, stop: stop, cards: make([]*card, cfg.Size), tries: make([]error, cfg.Size),
		fds: make([]int, cfg.Size), taken: make([]bool, cfg.Size), left: cfg.Size - 1, full: make(chan struct{}),
	}
	for r := range m.fds {
		m.fds[r] = -1
	}
	begin := time.Now()
	m.begin()
	select {
	case <-m.full:
	case <-within.Done():
	}
	why := context.Cause(within)
	stop()
	m.running.Wait()
	if m.left == 0 {
		return m.fds, nil
	}
	err := m.cause
	if err == nil {
		err = m.missing(why, time.Since(begin))
	}
	closeAll(m.fds)
	var told toldFailure
	if !errors.As(err, &told) {
		m.tell(err)
	}
	return nil, exitcode.With(err, exitcode.Rendezvous)
}

// missing names the ranks that did not come.
func (m *mesh) missing(why error, after time.Duration) error {
	var silent []int
	var parts []string
	for r, fd := range m.fds {
		switch {
		case r == m.cfg.Rank || fd >= 0:
		case m.cards[r] == nil:
			silent = append(silent, r)
		case m.tries[r] != nil:
			parts = append(parts, fmt.Sprintf("rank %d appeared but cannot be reached (%v)", r, m.tries[r]))
		default:
			parts = append(parts, fmt.Sprintf("rank %d appeared but did not connect", r))
		}
	}
	if len(silent) > 0 {
		parts = append([]string{fmt.Sprintf("ranks %v of %d did not appear", silent, m.cfg.Size)}, parts...)
	}
	err := fmt.Errorf("%s within %v: %w", strings.Join(parts, ", "), after.Round(time.Millisecond), why)
	if errors.Is(why, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", collective.ErrTimeout, err)
	}
	return err
}

// tell leaves the failure for the other ranks: they need not wait for their
// own time-out.
func (m *mesh) tell(err error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_, _, _ = m.cfg.Store.CompareAndSet(ctx, m.key("failed"), nil, fmt.Appendf(nil, "rank %d: %v", m.cfg.Rank, err))
}

// toldFailure is what another rank wrote when its New failed.
type toldFailure string

func (t toldFailure) Error() string { return string(t) }

func (m *mesh) key(parts ...string) string {
	return m.cfg.Name + "/" + strings.Join(parts, "/")
}

// begin starts everything that runs at the same time.
func (m *mesh) begin() {
	var mine card
	if !m.cfg.TCP {
		mine.host = hostID()
	}
	if mine.host != "" {
		l, err := listenLocal()
		if err != nil {
			m.fail(err)
			return
		}
		mine.local = l.Addr().String()
		m.accept(l)
	}
	m.mu.Lock()
	m.cards[m.cfg.Rank] = &mine
	m.mu.Unlock()
	if err := m.cfg.Store.Set(m.ctx, m.key("rank", strconv.Itoa(m.cfg.Rank)), []byte(mine.String())); err != nil {
		m.fail(err)
		return
	}
	m.running.Go(func() {
		if text, err := m.cfg.Store.Get(m.ctx, m.key("failed")); err == nil {
			m.fail(fmt.Errorf("%w: %w", collective.ErrPeerLost, toldFailure(text)))
		}
	})
	listen := sync.OnceValue(m.listen)
	for r := range m.cfg.Size {
		if r != m.cfg.Rank {
			m.running.Go(func() { m.meet(mine, r, listen) })
		}
	}
}

// meet reads another rank's card and connects to it, or makes sure that it can
// connect to this one.
func (m *mesh) meet(mine card, r int, listen func() error) {
	text, err := m.cfg.Store.Get(m.ctx, m.key("rank", strconv.Itoa(r)))
	if err != nil {
		m.fail(err)
		return
	}
	theirs, err := parseCard(text)
	if err != nil {
		m.fail(fmt.Errorf("rank %d: %w", r, err))
		return
	}
	m.mu.Lock()
	m.cards[r] = &theirs
	m.mu.Unlock()
	switch {
	case r > m.cfg.Rank && mine.near(theirs): // it dials
	case r > m.cfg.Rank:
		err = listen()
	case mine.near(theirs):
		err = m.dialLocal(r, theirs.local)
	default:
		err = m.dialFar(r)
	}
	if err != nil {
		m.fail(err)
	}
}

// listen opens the TCP listener and publishes it. No port is opened unless a
// rank on another machine needs it.
func (m *mesh) listen() error {
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(m.ctx, "tcp", ":0")
	if err != nil {
		return fmt.Errorf("listen for ranks of other machines: %w", err)
	}
	m.accept(l)
	list, err := endpoints(l, m.cfg.Hosts)
	if err != nil {
		return err
	}
	return m.cfg.Store.Set(m.ctx, m.key("tcp", strconv.Itoa(m.cfg.Rank)), []byte(strings.Join(list, "\n")))
}

// accept takes connections from l until the mesh is complete.
func (m *mesh) accept(l net.Listener) {
	// Connections that have not proved themselves: enough for all ranks at
	// once, and a bound on what strangers can hold.
	slots := make(chan struct{}, 2*m.cfg.Size+16)
	m.running.Go(func() {
		stop := context.AfterFunc(m.ctx, func() { _ = l.Close() })
		defer stop()
		for {
			c, err := l.Accept()
			if err != nil {
				m.fail(fmt.Errorf("accept: %w", err)) // says nothing when the mesh has ended
				return
			}
			slots <- struct{}{}
			m.running.Go(func() {
				m.welcome(c)
				<-slots
			})
		}
	})
}

// welcome admits a dialing rank. Whoever cannot prove itself is dropped
// without a word and takes no place.
func (m *mesh) welcome(c net.Conn) {
	defer m.closeWith(c)()
	from := -1
	_, err := proof.Accept(c, m.cfg.Token, proof.Mesh, func(b []byte) error {
		h, err := parseHello(b)
		if err != nil {
			return err
		}
		if err := m.reserve(h); err != nil {
			return err
		}
		from = h.from
		return nil
	})
	if from < 0 {
		return
	}
	if err == nil {
		err = m.keep(from, c)
	}
	if err != nil {
		m.mu.Lock()
		m.taken[from] = false
		m.mu.Unlock()
	}
}

// closeWith closes c when the mesh fails and when the returned function runs.
func (m *mesh) closeWith(c net.Conn) func() {
	stop := context.AfterFunc(m.ctx, func() { _ = c.Close() })
	return func() {
		stop()
		_ = c.Close()
	}
}

func (m *mesh) reserve(h hello) error {
	switch {
	case h.name != m.cfg.Name:
		return fmt.Errorf("this is group %q, not %q", m.cfg.Name, h.name)
	case h.size != m.cfg.Size:
		return fmt.Errorf("rank %d has a group of %d, rank %d one of %d", m.cfg.Rank, m.cfg.Size, h.from, h.size)
	case h.to != m.cfg.Rank:
		return fmt.Errorf("this is rank %d, not rank %d", m.cfg.Rank, h.to)
	case h.from <= m.cfg.Rank || h.from >= m.cfg.Size:
		return fmt.Errorf("rank %d has no business to dial rank %d", h.from, m.cfg.Rank)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken[h.from] {
		return fmt.Errorf("rank %d is connected to rank %d already", h.from, m.cfg.Rank)
	}
	m.taken[h.from] = true
	return nil
}

// keep takes the socket out of c, which is closed by the caller.
func (m *mesh) keep(r int, c net.Conn) error {
	fd, err := takeSocket(c)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		_ = unix.Close(fd)
		return m.ctx.Err()
	}
	m.fds[r] = fd
	m.left--
	if m.left == 0 {
		close(m.full)
	}
	return nil
}

// takeSocket duplicates the socket of a connection: the copy is not known to
// the runtime's poller, which would wake up for everything that happens on it.
func takeSocket(c net.Conn) (int, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("a connection of type %T has no socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(s uintptr) {
		fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return -1, fmt.Errorf("duplicate socket: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	tune(fd, c.LocalAddr().Network())
	return fd, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
