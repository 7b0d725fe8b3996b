package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// flushEvery bounds how old a line can be before it is in the file.
const flushEvery = time.Second

// flushSize bounds the memory of lines that are not in the file yet.
const flushSize = 64 << 10

// Writer appends events to metrics.jsonl. A disk that is full costs lines, not
// the run: the first failure is reported through warn, later ones are silent,
// and when there is room again lines go on. It is safe for several goroutines.
type Writer struct {
	file *os.File
	warn func(error)
	once sync.Once // for warn

	mu     sync.Mutex
	lines  bytes.Buffer // whole lines that are not in the file yet
	timer  *time.Timer  // brings them there; nil: nothing waits
	torn   bool         // the file does not end with a line end
	closed bool
}

// Open opens path for appending: a run that goes on adds to what its earlier
// attempts wrote. warn may be called from any goroutine.
func Open(path string, warn func(error)) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("metrics: %w", err), exitcode.Machine)
	}
	w := &Writer{file: f, warn: warn}
	if w.torn, err = endsTorn(f); err != nil {
		err = fmt.Errorf("metrics: %w", errors.Join(err, f.Close()))
		return nil, exitcode.With(err, exitcode.Machine)
	}
	return w, nil
}

// endsTorn says whether a killed attempt left an unfinished line, which must
// not run into the next one.
func endsTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

// Write appends one event; it is in the file a second later at most.
func (w *Writer) Write(event any) {
	line, err := json.Marshal(event)
	if err == nil {
		err = w.add(line)
	}
	w.report(err)
}

func (w *Writer) add(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	w.lines.Write(line)
	w.lines.WriteByte('\n')
	if w.lines.Len() >= flushSize {
		return w.flush()
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(flushEvery, func() { w.report(w.Flush()) })
	}
	return nil
}

// Flush brings all lines into the file: a process that is killed then does not
// lose them.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// flush writes the lines. Those of a write that fails are lost: keeping them
// would take ever more memory. The caller holds mu.
func (w *Writer) flush() error {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if w.lines.Len() == 0 || w.closed {
		return nil
	}
	defer w.lines.Reset()
	b := w.lines.Bytes()
	if w.torn {
		b = append([]byte{'\n'}, b...)
	}
	n, err := w.file.Write(b)
	if n > 0 {
		w.torn = b[n-1] != '\n'
	}
	return err
}

func (w *Writer) report(err error) {
	if err == nil {
		return
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	w.once.Do(func() {
		w.warn(fmt.Errorf("metrics: lines are missing from %s: %w (the run goes on)", w.file.Name(), err))
	})
}

// Close writes what is left and closes the file.
func (w *Writer) Close() error {
	w.report(w.Flush())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.file.Close()
}
