package testkit

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestCommandReportsItsEnd(t *testing.T) {
	for script, code := range map[string]int{"echo a; echo b >&2; exit 3": 3, "echo a; echo b >&2; kill -9 $$": 137} {
		r := Command{Args: []string{"sh", "-c", script}}.Run(t)
		if r.Code != code || r.Stdout != "a\n" || r.Stderr != "b\n" {
			t.Errorf("%s: code %d, %s", script, r.Code, r)
		}
	}
}

func TestWaitForAndSignal(t *testing.T) {
	p := Command{Args: []string{"sh", "-c", `trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done`}}.Start(t)
	p.WaitFor("ready")
	p.Signal(syscall.SIGUSR1)
	p.Wait().Want(t, 9)
}

// deaf is a test that swallows failures, to see the kit fail.
type deaf struct {
	testing.TB
	failed bool
}

func (d *deaf) Helper()               {}
func (d *deaf) Errorf(string, ...any) { d.failed = true }

func TestLeftBehindIsNoticed(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc")
	}
	d := &deaf{TB: t}
	start := time.Now()
	Command{Args: []string{"sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &"}}.Run(d)
	if !d.failed {
		t.Error("a process that was left behind went unnoticed")
	}
	if time.Since(start) > Scale(15*time.Second) {
		t.Error("it was waited for")
	}
}
