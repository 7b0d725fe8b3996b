package logs

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const readSize = 64 << 10

// Mux carries the output of all ranks of an attempt.
type Mux struct {
	console *Console
	ledger  *ledger
}

// NewMux makes a carrier to console. Each log file that loses output is passed
// to warn once.
func NewMux(console *Console, warn func([]Loss)) *Mux {
	return &Mux{console: console, ledger: newLedger(warn)}
}

// Close returns what the log files lost. All streams must have been drained.
func (m *Mux) Close() []Loss { return m.ledger.close() }

// Spec describes one output stream of one rank.
type Spec struct {
	Owner  int            // orders frames: the lowest owner's is shown
	Target Target         // console stream
	Show   bool           // on the console at all
	Prefix string         // before each line; empty: bytes pass as they are
	File   io.WriteCloser // log file, closed at the end; nil: none
	Name   string         // of the file, for messages
}

// Stream is one output stream of one rank.
type Stream struct {
	spec  Spec
	mux   *Mux
	read  *os.File
	write *os.File
	done  chan struct{}

	split splitter
	out   []byte

	mu   sync.Mutex
	tail tail
}

// Open makes a stream; its Child end is for the rank.
func (m *Mux) Open(spec Spec) (*Stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for a rank's output: %w", err)
	}
	s := &Stream{spec: spec, mux: m, read: r, write: w, done: make(chan struct{})}
	s.split.prefix = []byte(spec.Prefix)
	go s.pump()
	return s, nil
}

// Child is the end that the rank writes to.
func (s *Stream) Child() *os.File { return s.write }

// Release closes this process's copy of the child's end, once the rank has it
// or never will.
func (s *Stream) Release() { _ = s.write.Close() }

// Drain waits until everything that was written has been carried. A process
// that keeps the other end open is not waited for longer than limit.
func (s *Stream) Drain(limit time.Duration) {
	_ = s.read.SetReadDeadline(time.Now().Add(limit))
	<-s.done
}

// Tail returns the last lines of the stream.
func (s *Stream) Tail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.last()
}

// pump reads until the stream ends. It never stops because of a writer.
func (s *Stream) pump() {
	defer close(s.done)
	defer s.read.Close()
	chunk := make([]byte, readSize)
	for {
		n, err := s.read.Read(chunk)
		if n > 0 {
			s.carry(chunk[:n])
		}
		if err != nil {
			break
		}
	}
	s.finish()
}

func (s *Stream) carry(chunk []byte) {
	s.store(chunk)
	s.mu.Lock()
	s.tail.feed(chunk)
	s.mu.Unlock()
	if !s.spec.Show {
		return
	}
	if s.spec.Prefix == "" {
		s.mux.console.raw(s.spec.Target, chunk)
		return
	}
	// Small portions, so that the prefixes of many short lines stay bounded.
	for len(chunk) > 0 {
		part := chunk[:min(len(chunk), readSize/8)]
		chunk = chunk[len(part):]
		s.out = s.split.feed(part, s.out)
		if len(s.out) >= readSize/2 || len(chunk) == 0 {
			s.show()
		}
	}
	s.mux.console.frame(s.spec.Target, s.spec.Owner, s.currentFrame())
}

func (s *Stream) show() {
	if len(s.out) > 0 {
		s.mux.console.lines(s.spec.Target, s.out)
		s.out = s.out[:0]
	}
}

func (s *Stream) currentFrame() []byte {
	text := s.split.current()
	if text == nil {
		return nil
	}
	return append([]byte(s.spec.Prefix), text[:min(len(text), 4<<10)]...)
}

func (s *Stream) store(chunk []byte) {
	if s.spec.File == nil {
		return
	}
	n, err := s.spec.File.Write(chunk)
	if err != nil {
		s.mux.ledger.add(s.spec.Name, int64(len(chunk)-n), bare(err))
	}
}

func (s *Stream) finish() {
	if s.spec.Show && s.spec.Prefix != "" {
		s.mux.console.frame(s.spec.Target, s.spec.Owner, nil)
		s.out = s.split.end(s.out)
		s.show()
	}
	if s.spec.File == nil {
		return
	}
	// Some file systems tell only now that earlier bytes did not fit.
	if err := s.spec.File.Close(); err != nil {
		s.mux.ledger.add(s.spec.Name, 0, bare(err))
	}
}
