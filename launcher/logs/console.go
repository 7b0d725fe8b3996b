package logs

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// Target is one of the console's two streams.
type Target int

// Targets.
const (
	Stdout Target = iota
	Stderr
)

// Console is where the launcher and its ranks show output: the launcher's
// standard output and standard error, which may be one terminal.
type Console struct {
	mu     sync.Mutex
	sinks  [2]*sink
	frames map[int][]byte // live frames by owner; the lowest owner's is drawn
	homes  map[int]*sink
	drawn  *sink // where a frame stands on the screen
	ledger *ledger
}

// sink is one stream of the console.
type sink struct {
	name    string
	w       io.Writer
	width   func() int // columns of a terminal; nil: not a terminal
	midline bool       // the last byte written was not a line end
	dead    bool       // nobody will ever read it again
}

// NewConsole makes a console of the two streams. The program must have asked
// for SIGPIPE (signal.Notify), or a closed pipe ends it. Each stream that
// loses output is passed to warn once.
func NewConsole(stdout, stderr *os.File, warn func([]Loss)) *Console {
	return newConsole(fileSink("console (stdout)", stdout), fileSink("console (stderr)", stderr), warn)
}

func fileSink(name string, f *os.File) *sink {
	s := &sink{name: name, w: f}
	if fd := int(f.Fd()); term.IsTerminal(fd) {
		s.width = func() int {
			if w, _, err := term.GetSize(fd); err == nil && w > 0 {
				return w
			}
			return 80
		}
	}
	return s
}

func newConsole(stdout, stderr *sink, warn func([]Loss)) *Console {
	return &Console{
		sinks:  [2]*sink{Stdout: stdout, Stderr: stderr},
		frames: map[int][]byte{},
		homes:  map[int]*sink{},
		ledger: newLedger(warn),
	}
}

// Terminal says whether the target is a terminal.
func (c *Console) Terminal(t Target) bool { return c.sinks[t].width != nil }

// Writer returns a writer for whole messages of the launcher itself; each Write
// is one message, and starts on a line of its own.
func (c *Console) Writer(t Target) io.Writer { return message{c, t} }

type message struct {
	c *Console
	t Target
}

func (m message) Write(b []byte) (int, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.erase()
	for _, s := range m.c.sinks {
		if s.midline && (s.width != nil || s == m.c.sinks[m.t]) {
			m.c.put(s, []byte("\n"))
		}
	}
	m.c.put(m.c.sinks[m.t], b)
	m.c.draw()
	return len(b), nil
}

// Sync is there for loggers; nothing is buffered.
func (m message) Sync() error { return nil }

// lines writes whole lines.
func (c *Console) lines(t Target, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.put(c.sinks[t], b)
	c.draw()
}

// raw writes bytes of the only rank as they come.
func (c *Console) raw(t Target, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(c.sinks[t], b)
}

// frame makes text the owner's line that is redrawn in place; nil removes it.
func (c *Console) frame(t Target, owner int, text []byte) {
	s := c.sinks[t]
	if s.width == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, had := c.frames[owner]; !had && text == nil {
		return
	}
	c.erase()
	if text == nil {
		delete(c.frames, owner)
		delete(c.homes, owner)
	} else {
		c.frames[owner] = append(c.frames[owner][:0], text...)
		c.homes[owner] = s
	}
	c.draw()
}

// erase removes the frame on the screen. The caller holds mu.
func (c *Console) erase() {
	if c.drawn != nil {
		c.put(c.drawn, []byte("\r\x1b[K"))
		c.drawn.midline = false
		c.drawn = nil
	}
}

// draw puts the lowest owner's frame on the screen. The caller holds mu.
func (c *Console) draw() {
	if len(c.frames) == 0 {
		return
	}
	owner := slices.Min(slices.Collect(maps.Keys(c.frames)))
	s := c.homes[owner]
	c.put(s, fit(c.frames[owner], s.width()-1))
	c.drawn = s
}

// put writes b and counts what cannot be written. The caller holds mu.
func (c *Console) put(s *sink, b []byte) {
	if len(b) == 0 {
		return
	}
	if s.dead {
		c.ledger.add(s.name, int64(len(b)), nil)
		return
	}
	n, err := s.w.Write(b)
	if n > 0 {
		s.midline = b[n-1] != '\n'
	}
	if err != nil {
		s.dead = errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EBADF)
		c.ledger.add(s.name, int64(len(b)-n), bare(err))
	}
}

// Close removes a frame that still stands, ends an unfinished line of a
// terminal, and returns what was lost. The console may still be written to.
func (c *Console) Close() []Loss {
	c.mu.Lock()
	c.erase()
	clear(c.frames)
	for _, s := range c.sinks {
		if s.midline && s.width != nil {
			c.put(s, []byte("\n"))
		}
	}
	c.mu.Unlock()
	return c.ledger.close()
}

// bare takes the path off an error: the loss names the place itself.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
