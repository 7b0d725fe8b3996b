package testkit

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Command is a program to run in a test.
type Command struct {
	Args    []string
	Dir     string
	Env     []string // added to the test's environment
	Timeout time.Duration
	// Stdout and Stderr replace the capture of a stream.
	Stdout, Stderr *os.File
}

// Process is a started Command.
type Process struct {
	t              testing.TB
	cmd            *exec.Cmd
	mark           string
	stdout, stderr capture
	timer          *time.Timer
	timedOut       chan struct{}
}

// Result is how a command ended.
type Result struct {
	Code           int // 128+n for signal n
	Stdout, Stderr string
}

// Start starts the command in a process group of its own and ends it, with all
// it started, at its deadline (20 s if Timeout is zero; scaled).
func (c Command) Start(t testing.TB) *Process {
	t.Helper()
	p := &Process{t: t, mark: "DDPRUN_TEST_" + rand.Text(), timedOut: make(chan struct{})}
	p.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(append(os.Environ(), c.Env...), p.mark+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		p.cmd.Stderr = c.Stderr
	}
	p.cmd.WaitDelay = Scale(10 * time.Second) // for pipes that a leftover holds open
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	p.timer = time.AfterFunc(Scale(c.Timeout), func() {
		close(p.timedOut)
		p.killAll()
	})
	return p
}

// Run starts the command and waits for it.
func (c Command) Run(t testing.TB) Result {
	t.Helper()
	return c.Start(t).Wait()
}

// Run runs a program with a deadline (scaled). The test fails if the deadline
// passes or if the program leaves processes behind.
func Run(t testing.TB, timeout time.Duration, name string, args ...string) Result {
	t.Helper()
	return Command{Args: append([]string{name}, args...), Timeout: timeout}.Run(t)
}

// PID is the process id of the command.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig to the command alone.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// Output is what both streams have captured so far.
func (p *Process) Output() string { return p.stdout.String() + p.stderr.String() }

// WaitFor waits until the captured output holds text.
func (p *Process) WaitFor(text string) {
	p.t.Helper()
	deadline := time.Now().Add(Scale(20 * time.Second))
	for !strings.Contains(p.Output(), text) {
		if time.Now().After(deadline) {
			p.killAll()
			p.t.Fatalf("no %q in the output:\n%s", text, p.Output())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Wait waits for the command. The test fails if the deadline passed or if the
// command left processes behind.
func (p *Process) Wait() Result {
	p.t.Helper()
	err := p.cmd.Wait()
	p.timer.Stop()
	select {
	case <-p.timedOut:
		p.t.Fatalf("%v did not end in time; stdout:\n%s\nstderr:\n%s", p.cmd.Args, p.stdout.String(), p.stderr.String())
	default:
	}
	r := Result{Stdout: p.stdout.String(), Stderr: p.stderr.String()}
	state := p.cmd.ProcessState
	if state == nil {
		p.t.Fatal(err)
	}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Code = 128 + int(w.Signal())
	} else {
		r.Code = state.ExitCode()
	}
	p.noneLeft()
	return r
}

// noneLeft allows a moment for processes that were already told to die.
func (p *Process) noneLeft() {
	p.t.Helper()
	deadline := time.Now().Add(Scale(3 * time.Second))
	for {
		left := Carriers(p.mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			p.killAll()
			p.t.Errorf("%v left processes behind: %v\nstderr:\n%s", p.cmd.Args, left, p.stderr.String())
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *Process) killAll() {
	for _, l := range Carriers(p.mark) {
		_ = syscall.Kill(l.PID, syscall.SIGKILL)
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
}

// Want fails the test unless the command ended with code.
func (r Result) Want(t testing.TB, code int) Result {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d\n%s", r.Code, code, r)
	}
	return r
}

func (r Result) String() string {
	return fmt.Sprintf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
}

// capture is a buffer that may be read while it is written.
type capture struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *capture) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(b)
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}
