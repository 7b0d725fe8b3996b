package launcher

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "as-guard" {
		if err := proc.RunGuard(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// bench runs jobs in this process, with pipes for a console.
type bench struct {
	t       *testing.T
	cfg     Config
	signals chan os.Signal
	out     [2]*collector
}

// collector reads a pipe into memory.
type collector struct {
	w    *os.File
	done chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func newCollector(t *testing.T) *collector {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{w: w, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer r.Close()
		chunk := make([]byte, 4096)
		for {
			n, err := r.Read(chunk)
			c.mu.Lock()
			c.buf.Write(chunk[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { w.Close(); <-c.done })
	return c
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

func newBench(t *testing.T, ranks int, script string) *bench {
	b := &bench{t: t, signals: make(chan os.Signal, 4), out: [2]*collector{newCollector(t), newCollector(t)}}
	b.cfg = Config{
		Name: "test", LogDir: t.TempDir(), Ranks: ranks, Grace: testkit.Scale(10 * time.Second),
		Command: Command{Args: []string{"sh", "-c", script}},
		Environ: os.Environ(), Log: zap.NewNop(), Signals: b.signals,
		Console: logs.NewConsole(b.out[0].w, b.out[1].w, nil),
	}
	return b
}

func (b *bench) run() Verdict {
	b.t.Helper()
	v, err := b.try()
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) try() (Verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Scale(40*time.Second))
	defer cancel()
	v, err := Run(ctx, b.cfg)
	b.cfg.Console.Close()
	for _, c := range b.out {
		c.w.Close()
		<-c.done
	}
	return v, err
}

// start runs the job beside the test.
func (b *bench) start() <-chan Verdict {
	done := make(chan Verdict, 1)
	go func() {
		v, err := b.try()
		if err != nil {
			b.t.Error(err)
		}
		done <- v
	}()
	return done
}

// waitFor waits for text on the console.
func (b *bench) waitFor(text string, times int) {
	b.t.Helper()
	testkit.Eventually(b.t, 20*time.Second, text, func() bool {
		return strings.Count(b.stdout()+b.stderr(), text) >= times
	})
}

func (b *bench) stdout() string { return b.out[0].text() }
func (b *bench) stderr() string { return b.out[1].text() }

func reportOf(v *Verdict) string {
	var text strings.Builder
	Report(&text, v)
	return text.String()
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in:\n%s", p, text)
		}
	}
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func send(b *bench, s syscall.Signal) { b.signals <- s }
