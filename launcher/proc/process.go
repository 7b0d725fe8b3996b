package proc

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Spec says what to start.
type Spec struct {
	Args   []string // command and arguments, at least one
	Env    []string // whole environment
	Dir    string   // working folder; empty: this process's
	Stdout *os.File // the caller closes its copies after Start
	Stderr *os.File
}

// Process is one started rank, leader of its own process group.
type Process struct {
	pid     int
	started time.Time
	handle  *os.Process
	done    chan struct{}
	status  Status
	empty   atomic.Bool // the group has no members any more: its id is free
}

// PID is the process id, and the id of its process group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process itself has ended; others of its group may
// still run.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended; valid once Done is closed.
func (p *Process) Status() Status { return p.status }

// Signal sends sig to the process alone. One that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %d to pid %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// SignalGroup sends sig to every process of the group. An empty group is no
// error.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	if p.groupEmpty() {
		return nil
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d to process group %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// groupEmpty says whether the group is gone. Once it is, the kernel may give
// its id to a stranger, so the answer is final.
func (p *Process) groupEmpty() bool {
	if p.empty.Load() {
		return true
	}
	select {
	case <-p.done:
	default:
		return false
	}
	if errors.Is(syscall.Kill(-p.pid, 0), syscall.ESRCH) {
		p.empty.Store(true)
		return true
	}
	return false
}

// start forks and executes spec. It must run on the birth thread.
func start(spec Spec) (*Process, error) {
	if len(spec.Args) == 0 || spec.Args[0] == "" {
		return nil, exitcode.With(errors.New("no command to start"), exitcode.Usage)
	}
	path, err := lookup(spec.Args[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, exitcode.With(err, exitcode.Machine)
	}
	defer null.Close()
	began := time.Now()
	handle, err := os.StartProcess(path, spec.Args, &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []*os.File{null, spec.Stdout, spec.Stderr},
		Sys:   rankAttr(),
	})
	if err != nil {
		return nil, startError(path, err)
	}
	return &Process{pid: handle.Pid, started: began, handle: handle, done: make(chan struct{})}, nil
}

// wait collects the process; the caller runs it once, in a goroutine.
func (p *Process) wait() {
	state, err := p.handle.Wait()
	p.status = Status{Code: exitcode.Failure}
	if err == nil {
		w, _ := state.Sys().(syscall.WaitStatus)
		ru, _ := state.SysUsage().(*syscall.Rusage)
		p.status = statusOf(w, ru)
	}
	p.status.Started, p.status.Ended = p.started, time.Now()
	close(p.done)
}
