package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a sink of the console that remembers single writes.
type memory struct {
	mu     sync.Mutex
	writes []string
	err    error
	accept int // bytes taken before err
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		n := min(m.accept, len(b))
		m.accept -= n
		return n, m.err
	}
	m.writes = append(m.writes, string(b))
	return len(b), nil
}

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.writes, "")
}

type bench struct {
	out, err *memory
	console  *Console
	mux      *Mux
	mu       sync.Mutex
	warned   []Loss
}

func newBench(width int) *bench {
	b := &bench{out: &memory{}, err: &memory{}}
	warn := func(l []Loss) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.warned = append(b.warned, l...)
	}
	sinks := [2]*sink{{name: "stdout", w: b.out}, {name: "stderr", w: b.err}}
	if width > 0 {
		for _, s := range sinks {
			s.width = func() int { return width }
		}
	}
	b.console = newConsole(sinks[0], sinks[1], warn)
	b.mux = NewMux(b.console, warn)
	return b
}

func (b *bench) open(t *testing.T, spec Spec) *Stream {
	t.Helper()
	s, err := b.mux.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *Stream, text string) {
	t.Helper()
	if _, err := io.WriteString(s.Child(), text); err != nil {
		t.Fatal(err)
	}
}

func finish(s *Stream) { s.Release(); s.Drain(time.Minute) }

// buffer is a log file in memory.
type buffer struct {
	bytes.Buffer
	closed bool
}

func (b *buffer) Close() error { b.closed = true; return nil }

func TestFilesAreExactAndLinesAreWhole(t *testing.T) {
	b := newBench(0)
	const ranks, lines = 8, 2000
	var files [ranks]buffer
	var wait sync.WaitGroup
	for r := range ranks {
		s := b.open(t, Spec{Owner: r, Show: true, Prefix: fmt.Sprintf("[rank %d] ", r), File: &files[r]})
		wait.Go(func() {
			for i := range lines {
				text := fmt.Sprintf("%d:%d:%s\n", r, i, strings.Repeat("x", i%90))
				_, _ = io.WriteString(s.Child(), text[:len(text)/2])
				_, _ = io.WriteString(s.Child(), text[len(text)/2:])
			}
			finish(s)
		})
	}
	wait.Wait()
	var next [ranks]int
	for line := range strings.Lines(b.out.text()) {
		var pr, r, i int
		var rest string
		if n, _ := fmt.Sscanf(line, "[rank %d] %d:%d:%s", &pr, &r, &i, &rest); n < 3 || pr != r || i != next[r] || len(rest) != i%90 {
			t.Fatalf("mixed line %q", line)
		}
		next[r]++
	}
	for r := range ranks {
		if next[r] != lines {
			t.Errorf("rank %d: %d lines on the console", r, next[r])
		}
		var want strings.Builder
		for i := range lines {
			fmt.Fprintf(&want, "%d:%d:%s\n", r, i, strings.Repeat("x", i%90))
		}
		if files[r].String() != want.String() || !files[r].closed {
			t.Errorf("rank %d: the file differs", r)
		}
	}
}

func TestWithoutPrefixBytesPassUnchanged(t *testing.T) {
	b := newBench(0)
	var file buffer
	text := "a\r20%\r\x00no newline\xff"
	s := b.open(t, Spec{Show: true, File: &file})
	write(t, s, text)
	finish(s)
	if b.out.text() != text || file.String() != text {
		t.Errorf("console %q, file %q", b.out.text(), file.String())
	}
}

func TestHiddenStreamGoesToTheFileOnly(t *testing.T) {
	b := newBench(0)
	var file buffer
	s := b.open(t, Spec{Prefix: "> ", File: &file, Target: Stderr})
	write(t, s, "quiet\n")
	finish(s)
	if b.out.text()+b.err.text() != "" || file.String() != "quiet\n" || s.Tail()[0] != "quiet" {
		t.Errorf("console %q %q, file %q", b.out.text(), b.err.text(), file.String())
	}
}

// hole is a log file that only counts.
type hole int64

func (h *hole) Write(b []byte) (int, error) { *h += hole(len(b)); return len(b), nil }
func (h *hole) Close() error                { return nil }

func TestHugeLineNeedsLittleMemory(t *testing.T) {
	b := newBench(0)
	b.console.sinks[Stdout].w = io.Discard
	var file hole
	s := b.open(t, Spec{Show: true, Prefix: "> ", File: &file})
	chunk := bytes.Repeat([]byte("y"), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := s.Child().Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("100 MiB in one line: heap grew by %d bytes", grown)
	}
	finish(s)
	if file != 100<<20 {
		t.Errorf("%d bytes in the file", file)
	}
}

func TestFullDiskCostsBytesNotRanks(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	b := newBench(0)
	s := b.open(t, Spec{Show: true, Prefix: "> ", File: full, Name: "rank-0/stdout.log"})
	for range 300 {
		write(t, s, strings.Repeat("x", 9999)+"\n")
	}
	finish(s)
	lost := b.mux.Close()
	if len(lost) != 1 || lost[0].Bytes != 3_000_000 || !errors.Is(lost[0].Err, syscall.ENOSPC) || lost[0].Name != "rank-0/stdout.log" {
		t.Errorf("lost %+v", lost)
	}
	if len(b.warned) != 1 {
		t.Errorf("%d warnings", len(b.warned))
	}
	if n := strings.Count(b.out.text(), "\n"); n != 300 {
		t.Errorf("%d lines on the console", n)
	}
}

func TestLossIsReportedSoonAndOnce(t *testing.T) {
	reports := make(chan []Loss, 10)
	l := newLedger(func(losses []Loss) { reports <- losses })
	l.add("a", 5, syscall.ENOSPC)
	l.add("a", 6, syscall.ENOSPC)
	select {
	case r := <-reports:
		if len(r) != 1 || r[0].Bytes != 11 {
			t.Errorf("%+v", r)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no report while the job runs")
	}
	l.add("a", 7, syscall.ENOSPC)
	if total := l.close(); len(total) != 1 || total[0].Bytes != 18 {
		t.Errorf("total %+v", total)
	}
	if len(reports) != 0 {
		t.Error("reported twice")
	}
}

func TestGoneConsoleIsCountedAndFilesGoOn(t *testing.T) {
	b := newBench(0)
	b.out.err, b.out.accept = syscall.EPIPE, 3
	var file buffer
	s := b.open(t, Spec{Show: true, Prefix: "> ", File: &file})
	for range 1000 {
		write(t, s, "hello\n")
	}
	finish(s)
	if file.Len() != 6000 {
		t.Errorf("%d bytes in the file", file.Len())
	}
	lost := b.console.Close()
	if len(lost) != 1 || lost[0].Bytes != 1000*8-3 || !errors.Is(lost[0].Err, syscall.EPIPE) {
		t.Errorf("lost %+v", lost)
	}
}

func TestDrainDoesNotWaitForAStrangersEnd(t *testing.T) {
	b := newBench(0)
	s := b.open(t, Spec{Show: true, Prefix: "> "})
	write(t, s, "last words")
	// The child's end stays open, as when a daemon has inherited it.
	s.Drain(50 * time.Millisecond)
	s.Release()
	if b.out.text() != "> last words\n" {
		t.Errorf("got %q", b.out.text())
	}
}

func TestPipesReachRealFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(0)
	s := b.open(t, Spec{File: f, Name: path})
	write(t, s, "kept")
	finish(s)
	if got, err := os.ReadFile(path); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}
