package metrics

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// flushEvery bounds how old a line can be before it is in the file.
const flushEvery = time.Second

// Writer appends events to metrics.jsonl. A disk that is full costs lines, not
// the run: the first failure is reported through warn, later ones are silent.
type Writer struct {
	file    *os.File
	w       *bufio.Writer
	enc     *json.Encoder
	flushed time.Time
	warn    func(error)
	failed  bool
}

// Open opens path for appending: a run that goes on adds to what its earlier
// attempts wrote.
func Open(path string, warn func(error)) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("metrics: %w", err), exitcode.Machine)
	}
	w := &Writer{file: f, w: bufio.NewWriter(f), warn: warn}
	w.enc = json.NewEncoder(w.w)
	return w, w.endTornLine()
}

// endTornLine keeps what a killed attempt left of its last line from running
// into the next one.
func (w *Writer) endTornLine() error {
	info, err := w.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := w.file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = w.file.WriteString("\n")
	return err
}

// Write appends one event.
func (w *Writer) Write(event any) {
	err := w.enc.Encode(event)
	if err == nil && time.Since(w.flushed) > flushEvery {
		err = w.Flush()
	}
	w.report(err)
}

// Flush brings all lines into the file.
func (w *Writer) Flush() error {
	w.flushed = time.Now()
	return w.w.Flush()
}

func (w *Writer) report(err error) {
	if err == nil || w.failed {
		return
	}
	w.failed = true
	w.warn(fmt.Errorf("metrics: %s gets no more lines: %w", w.file.Name(), err))
}

// Close writes what is left and closes the file.
func (w *Writer) Close() error {
	w.report(w.Flush())
	return w.file.Close()
}
