package proc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options of a Supervisor.
type Options struct {
	// Guard is the command that starts this program as a guard (it must call
	// RunGuard). Empty: none, and descendants of ranks survive a launcher that
	// is killed with -9.
	Guard []string
	// Exclusive: this process starts no children but through the supervisor,
	// so whatever else turns up as its child was adopted and may be killed.
	// Ignored where that does not follow: for the first process of a container,
	// which adopts strangers, and for a program that had children before it
	// was executed ("sidecar & exec ddprun").
	Exclusive bool
}

// Supervisor starts processes and answers for all that descend from them.
type Supervisor struct {
	opts   Options
	mark   string // environment variable that every descendant inherits
	thread *birthThread
	guard  *guardClient
	reap   *reaper

	mu     sync.Mutex
	closed bool
	procs  map[int]*Process // by pid, all whose group may have members
	starts atomic.Int64     // processes ever started
	gone   atomic.Int64     // value of starts when nothing was left of them
	wait   sync.WaitGroup
}

// New makes a supervisor. The process becomes the one that adopts orphaned
// descendants, for good.
func New(opts Options) (*Supervisor, error) {
	opts.Exclusive = opts.Exclusive && os.Getpid() != 1 && !hasChildren()
	if err := becomeSubreaper(); err != nil {
		return nil, fmt.Errorf("become child subreaper: %w", err)
	}
	s := &Supervisor{
		opts:   opts,
		mark:   "DDPRUN_MARK_" + rand.Text(),
		thread: newBirthThread(),
		procs:  map[int]*Process{},
	}
	if len(opts.Guard) > 0 {
		guard, err := startGuard(opts.Guard, s.mark)
		if err != nil {
			s.thread.stop()
			return nil, fmt.Errorf("start guard: %w", err)
		}
		s.guard = guard
	}
	s.reap = newReaper(s.foreign, func() { s.started() })
	return s, nil
}

// Start starts spec as the leader of a new process group, with nothing on
// standard input. The error's exit code is 127 or 126 when the command is not
// found or not executable.
func (s *Supervisor) Start(spec Spec) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("supervisor is closed")
	}
	spec.Env = append(spec.Env[:len(spec.Env):len(spec.Env)], s.mark+"=1")
	var p *Process
	var err error
	s.thread.do(func() { p, err = start(spec) })
	if err != nil {
		return nil, err
	}
	s.procs[p.pid] = p
	s.starts.Add(1)
	if s.guard != nil {
		s.guard.add(p.pid)
	}
	s.wait.Go(p.wait)
	return p, nil
}

// GuardDone is closed when the guard has ended before its time; nil without a
// guard.
func (s *Supervisor) GuardDone() <-chan struct{} {
	if s.guard == nil {
		return nil
	}
	return s.guard.done
}

// Leftover is a process that outlived the rank it came from.
type Leftover struct {
	PID   int
	Name  string // short name as the kernel has it
	Group int    // process group, that is pid of a rank; 0 if it has left them
}

// killWait is how long the kernel may take to end a process that got KILL; a
// process in an uninterruptible call takes for ever.
const killWait = 5 * time.Second

// Terminate asks every descendant to end and returns them. With strays, only
// those that have left the groups are asked: the others were signalled before,
// and a second TERM could cut their own clean-up short.
func (s *Supervisor) Terminate(strays bool) []Leftover {
	left := s.Descendants()
	for _, l := range left {
		if !strays || l.Group == 0 {
			_ = syscall.Kill(l.PID, syscall.SIGTERM)
		}
	}
	return left
}

// Await waits until no descendant is left, at most d, and says whether that
// came true. It returns early when hurry is closed.
func (s *Supervisor) Await(d time.Duration, hurry <-chan struct{}) bool {
	deadline := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if len(s.Descendants()) == 0 {
			return true
		}
		rest := time.Until(deadline)
		if rest <= 0 {
			return false
		}
		select {
		case <-hurry:
			return false
		case <-time.After(min(pause, rest)):
		}
	}
}

// Kill sends KILL to every descendant until none is left, and returns those
// that are still there when the kernel has had time enough.
func (s *Supervisor) Kill() []Leftover {
	if s.allGone() {
		return nil
	}
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for _, p := range s.started() {
			_ = p.SignalGroup(syscall.SIGKILL)
		}
		left := s.Descendants()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		for _, l := range left {
			_ = syscall.Kill(l.PID, syscall.SIGKILL)
		}
		time.Sleep(pause)
	}
}

// Descendants lists the living processes that descend from the started ones,
// these included.
func (s *Supervisor) Descendants() []Leftover {
	if s.allGone() {
		return nil
	}
	starts := s.starts.Load()
	groups := map[int]bool{}
	for _, p := range s.started() {
		groups[p.pid] = true
	}
	found := descendants(os.Getpid(), groups, s.mark, s.opts.Exclusive, s.guardPID())
	if len(found) == 0 {
		s.gone.Store(starts)
	}
	return found
}

// allGone says whether nothing can be left: nobody who could start anything was
// there at the last look, and nothing was started since.
func (s *Supervisor) allGone() bool { return s.gone.Load() == s.starts.Load() }

// started lists the processes whose groups may have members.
func (s *Supervisor) started() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var alive []*Process
	for pid, p := range s.procs {
		if !p.groupEmpty() {
			alive = append(alive, p)
			continue
		}
		delete(s.procs, pid)
		if s.guard != nil {
			s.guard.drop(pid)
		}
	}
	return alive
}

// foreign says whether pid may be collected by the reaper: it is none of the
// processes that the supervisor waits for. The lock matters: Start holds it
// from before the fork until the process is known.
func (s *Supervisor) foreign(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ours := s.procs[pid]
	return !ours && pid != s.guardPID()
}

func (s *Supervisor) guardPID() int {
	if s.guard == nil {
		return 0
	}
	return s.guard.pid
}

// Close kills what is left and frees the supervisor's thread, guard and
// goroutines.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()

	immortal := s.Kill()
	s.thread.stop()
	s.reap.stop()
	if s.guard != nil {
		s.guard.stop()
	}
	if len(immortal) > 0 {
		return fmt.Errorf("%d processes do not die, first: pid %d (%s)", len(immortal), immortal[0].PID, immortal[0].Name)
	}
	s.wait.Wait()
	return nil
}
