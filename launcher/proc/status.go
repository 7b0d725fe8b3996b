package proc

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Status is how a process ended.
type Status struct {
	Code    int            // exit code when Signal is 0
	Signal  syscall.Signal // signal that ended it, 0 if it exited
	Core    bool           // a core file was written
	Started time.Time
	Ended   time.Time     // as seen by this process
	CPU     time.Duration // user and system time, children that it waited for included
	MaxRSS  int64         // bytes
}

// ExitCode is the status as a shell shows it: 128+n for signal n.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return exitcode.SignalBase + int(s.Signal)
	}
	return s.Code
}

func (s Status) String() string {
	switch {
	case s.Signal != 0 && s.Core:
		return fmt.Sprintf("killed by signal %d (%s), core dumped", int(s.Signal), unix.SignalName(s.Signal))
	case s.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%s)", int(s.Signal), unix.SignalName(s.Signal))
	}
	return fmt.Sprintf("exit code %d", s.Code)
}

func statusOf(w syscall.WaitStatus, ru *syscall.Rusage) Status {
	var s Status
	if w.Signaled() {
		s.Signal, s.Core = w.Signal(), w.CoreDump()
	} else {
		s.Code = w.ExitStatus()
	}
	if ru != nil {
		s.CPU = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		s.MaxRSS = maxRSSBytes(ru)
	}
	return s
}
