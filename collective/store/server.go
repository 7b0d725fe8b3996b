package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ddprun/ddprun/collective/internal/proof"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// maxStrangers bounds the connections that have not proved themselves yet.
const maxStrangers = 128

// keepAlive finds a machine that went away without a word in half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// Server keeps the keys. It lives in the launcher's process.
type Server struct {
	token    string
	listener net.Listener
	table    *table
	closed   chan struct{}
	slots    chan struct{} // handshakes under way

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	refused func(remote string, cause error)
	running sync.WaitGroup
}

// Listen opens a store at addr ("host:port"; port 0 lets the kernel choose, see
// Addr). Only connections that prove token are admitted. ctx bounds resolving
// and binding, not the server's life; Close ends it.
func Listen(ctx context.Context, addr, token string) (*Server, error) {
	if token == "" {
		return nil, exitcode.With(errors.New("store: a token is needed to tell the job's ranks from strangers"), exitcode.Usage)
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("store: cannot listen at %s: %w (choose another address, or port 0 for a free one)", addr, err), exitcode.Machine)
	}
	s := &Server{
		token: token, listener: l, table: newTable(),
		closed: make(chan struct{}), slots: make(chan struct{}, maxStrangers),
		conns: map[net.Conn]struct{}{},
	}
	s.running.Add(1)
	go s.accept()
	return s, nil
}

// NewToken draws a token: 128 random bits in hexadecimal.
func NewToken() string { return proof.NewToken() }

// Addr is where the server listens, "host:port" with the real port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Local is the store without a connection, for the server's own process.
func (s *Server) Local() Store { return &local{table: s.table, closed: s.closed} }

// OnRefused has f called, from any goroutine, for each connection that was not
// admitted.
func (s *Server) OnRefused(f func(remote string, cause error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = f
}

// Close ends the server: calls of all clients return ErrClosed. It returns when
// nothing of the server runs any more.
func (s *Server) Close() error {
	s.mu.Lock()
	select {
	case <-s.closed:
		s.mu.Unlock()
		s.running.Wait()
		return nil
	default:
	}
	close(s.closed)
	err := s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	defer s.running.Done()
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.closed:
			return
		}
		c, err := s.listener.Accept()
		if err != nil {
			<-s.slots
			select {
			case <-s.closed:
				return
			case <-time.After(50 * time.Millisecond): // out of descriptors: others will close
			}
			continue
		}
		if !s.keep(c) {
			<-s.slots
			_ = c.Close()
			return
		}
		go s.serve(c)
	}
}

// keep registers a connection; false when the server is closing.
func (s *Server) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return false
	default:
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) serve(c net.Conn) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	_, err := proof.Accept(c, s.token, proof.Store, nil)
	<-s.slots
	if err != nil {
		s.mu.Lock()
		report := s.refused
		s.mu.Unlock()
		if report != nil {
			report(c.RemoteAddr().String(), err)
		}
		return
	}
	newSession(c, s.table).run()
}
