//go:build linux

package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func supervisor(t *testing.T, opts Options) *Supervisor {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startSh(t *testing.T, s *Supervisor, script string) (*Process, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	p, err := s.Start(Spec{Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdout: w, Stderr: w})
	if err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return strings.TrimSpace(text)
}

func pidLine(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	text := line(t, r)
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("want a pid, got %q", text)
	}
	return pid
}

func waitDone(t *testing.T, p *Process) Status {
	t.Helper()
	select {
	case <-p.Done():
		return p.Status()
	case <-time.After(20 * time.Second):
		t.Fatalf("pid %d does not end", p.PID())
		return Status{}
	}
}

func alive(pid int) bool {
	p, ok := readStat(pid)
	return ok && !p.dead()
}

func waitGone(t *testing.T, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("pid %d lives on", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestStatusOfEveryKindOfEnd(t *testing.T) {
	s := supervisor(t, Options{})
	for _, c := range []struct {
		script, text string
		exit         int
	}{
		{"exit 0", "exit code 0", 0},
		{"exit 85", "exit code 85", 85},
		{"kill -9 $$", "killed by signal 9 (SIGKILL)", 137},
		{"kill -TERM $$", "killed by signal 15 (SIGTERM)", 143},
	} {
		p, _ := startSh(t, s, c.script)
		st := waitDone(t, p)
		if st.ExitCode() != c.exit || st.String() != c.text {
			t.Errorf("%s: %d, %s", c.script, st.ExitCode(), st)
		}
		if st.Started.IsZero() || st.Ended.Before(st.Started) || st.MaxRSS <= 0 {
			t.Errorf("%s: %+v", c.script, st)
		}
	}
}

func TestStandardInputIsTheNullDevice(t *testing.T) {
	s := supervisor(t, Options{})
	p, out := startSh(t, s, "readlink /proc/self/fd/0; cat; ls /proc/self/fd | tr '\\n' ' '")
	if got := line(t, out); got != "/dev/null" {
		t.Errorf("stdin is %s", got)
	}
	// Beside its three a rank may have what this test was itself started with,
	// but nothing of the supervisor's.
	rest, _ := out.ReadString(0)
	plain, err := exec.Command("sh", "-c", "ls /proc/self/fd | tr '\\n' ' '").Output()
	if err != nil || rest != string(plain) {
		t.Errorf("descriptors %q, a plain child has %q (%v)", rest, plain, err)
	}
	waitDone(t, p)
}

func TestStartErrorsHaveTheShellsCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := supervisor(t, Options{})
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"no-such-command-here"}, exitcode.NotFound, "not found"},
		{[]string{"./not-there"}, exitcode.NotFound, "no such file"},
		{[]string{file("plain", "text", 0o644)}, exitcode.NotExec, "not executable"},
		{[]string{dir}, exitcode.NotExec, "folder"},
		{[]string{file("noline", "echo hi\n", 0o755)}, exitcode.NotExec, "#!"},
		{[]string{file("lost", "#!/no/interpreter -x\n", 0o755)}, exitcode.NotFound, "/no/interpreter -x"},
		{[]string{"a\x01\n/b"}, exitcode.NotFound, `"a\x01\n/b"`},
		{[]string{""}, exitcode.Usage, "no command"},
		{nil, exitcode.Usage, "no command"},
	} {
		_, err := s.Start(Spec{Args: c.args, Env: os.Environ()})
		if err == nil || exitcode.Of(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: code %d, %v", c.args, exitcode.Of(err), err)
		}
	}
}

func TestLookupUsesTheRanksPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := supervisor(t, Options{})
	p, err := s.Start(Spec{Args: []string{"mine"}, Env: []string{"PATH=/nowhere:" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	if st := waitDone(t, p); st.Code != 9 {
		t.Errorf("%s", st)
	}
}

func TestSignalReachesTheLeaderAloneOrTheGroup(t *testing.T) {
	s := supervisor(t, Options{})
	p, out := startSh(t, s, `trap 'echo leader' USR1; sleep 300 & echo $!; while :; do sleep 0.02; done`)
	child := pidLine(t, out)
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := line(t, out); got != "leader" {
		t.Errorf("got %q", got)
	}
	if !alive(child) {
		t.Error("the child got the leader's signal")
	}
	if err := p.SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitDone(t, p)
	waitGone(t, child)
	if err := p.SignalGroup(syscall.SIGKILL); err != nil {
		t.Errorf("an empty group: %v", err)
	}
}

// A daemon that left the group and its parent is adopted and found.
func TestKillFindsWhatLeftTheGroup(t *testing.T) {
	s := supervisor(t, Options{})
	bystander := exec.Command("sleep", "300")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()

	p, out := startSh(t, s, `setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 0.1; done' & sleep 300 & echo $!; wait $!`)
	first, second := pidLine(t, out), pidLine(t, out)
	_ = p.Signal(syscall.SIGKILL)
	waitDone(t, p)
	if !alive(first) || !alive(second) {
		t.Fatal("children should outlive their parent until they are swept")
	}
	if got := s.Terminate(false); len(got) < 2 {
		t.Errorf("found %v", got)
	}
	if s.Await(200*time.Millisecond, nil) {
		t.Error("a process that ignores TERM cannot be gone")
	}
	if left := s.Kill(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	waitGone(t, first, second)
	if !alive(bystander.Process.Pid) {
		t.Error("a stranger was killed")
	}
}

// A daemon that also dropped its environment is found when every child of this
// process must be an adopted one.
func TestExclusiveFindsWhatDroppedItsEnvironment(t *testing.T) {
	for deadline := time.Now().Add(15 * time.Second); hasChildren(); time.Sleep(time.Millisecond) {
		var w syscall.WaitStatus // orphans that earlier tests left to this process
		_, _ = syscall.Wait4(-1, &w, syscall.WNOHANG, nil)
		if time.Now().After(deadline) {
			t.Fatal("a child of an earlier test is still there")
		}
	}
	s := supervisor(t, Options{Exclusive: true, Guard: guardCommand()})
	p, out := startSh(t, s, `setsid env -i sh -c 'echo $$; sleep 300' & wait`)
	child := pidLine(t, out)
	_ = p.Signal(syscall.SIGKILL)
	waitDone(t, p)
	if left := s.Kill(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	waitGone(t, child)
	select {
	case <-s.GuardDone():
		t.Error("the guard was swept too")
	default:
	}
}

func TestExclusiveIsForProcessesWithoutChildren(t *testing.T) {
	helper := exec.Command("sleep", "300")
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = helper.Process.Kill(); _ = helper.Wait() }()
	s := supervisor(t, Options{Exclusive: true})
	p, _ := startSh(t, s, "exit 0")
	waitDone(t, p)
	if left := s.Kill(); len(left) != 0 || !alive(helper.Process.Pid) {
		t.Errorf("left %v, helper alive %v", left, alive(helper.Process.Pid))
	}
}

func TestAwaitEndsEarly(t *testing.T) {
	s := supervisor(t, Options{})
	if !s.Await(time.Hour, nil) {
		t.Error("nothing was started")
	}
	startSh(t, s, "sleep 300")
	hurry := make(chan struct{})
	close(hurry)
	if s.Await(time.Hour, hurry) {
		t.Error("the process lives")
	}
}

func TestOrphansAreCollected(t *testing.T) {
	s := supervisor(t, Options{})
	_, out := startSh(t, s, `(sleep 0.1 & echo $!); sleep 300`)
	orphan := pidLine(t, out)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, there := readStat(orphan); !there {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("pid %d stays a zombie", orphan)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The reaper must not take the status of children that other code waits for.
func TestOtherCodesChildrenKeepTheirStatus(t *testing.T) {
	s := supervisor(t, Options{})
	startSh(t, s, `while :; do sleep 0.01; done`)
	for range 50 {
		err := exec.Command("sh", "-c", "exit 3").Run()
		if fmt.Sprint(err) != "exit status 3" {
			t.Fatal(err)
		}
	}
}

// Ranks live on whatever Go does with its threads; with the parent-death
// signal tied to an ordinary thread this fails at random.
func TestRanksDoNotFollowOtherThreads(t *testing.T) {
	s := supervisor(t, Options{})
	var ps []*Process
	for range 4 {
		p, _ := startSh(t, s, "sleep 300")
		ps = append(ps, p)
		done := make(chan struct{})
		go func() { // a locked goroutine that ends takes its thread with it
			defer close(done)
			runtime.LockOSThread()
		}()
		<-done
	}
	time.Sleep(100 * time.Millisecond)
	for _, p := range ps {
		if !alive(p.PID()) {
			t.Errorf("pid %d died with a thread", p.PID())
		}
	}
}

func TestNothingOutlivesALauncherKilledWithNine(t *testing.T) {
	bystander := exec.Command("sleep", "300")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()

	// Each rank: itself, a child in its group, and one that left the group.
	script := `sleep 300 & echo $!; setsid sleep 300 & echo $!; echo $$; wait`
	cmd := exec.Command(os.Args[0], "as-launcher", "sh", "-c", script)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	var pids []int
	for range 6 {
		pids = append(pids, pidLine(t, out))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	waitGone(t, pids...)
	if !alive(bystander.Process.Pid) {
		t.Error("a stranger was killed")
	}
}

// The instant after the fork: the guard may not even have come up.
func TestLauncherKilledRightAfterTheFork(t *testing.T) {
	for delay := range 6 {
		tag := fmt.Sprintf("300.%d%d", os.Getpid(), delay)
		cmd := exec.Command(os.Args[0], "as-launcher", "sh", "-c", "sleep "+tag+"; :")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(delay*4) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		deadline := time.Now().Add(15 * time.Second)
		for len(withArg(tag)) > 0 {
			if time.Now().After(deadline) {
				t.Fatalf("after %d ms: %v live on", delay*4, withArg(tag))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func withArg(arg string) []int {
	var pids []int
	for _, p := range processes() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if !p.dead() && strings.HasPrefix(string(text), "sleep\x00"+arg) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func TestParseStat(t *testing.T) {
	p, ok := parseStat("17 (a) b) (c)) S 3 12 12 0 -1\n")
	if want := (procStat{pid: 17, parent: 3, group: 12, name: "a) b) (c)", state: 'S'}); !ok || p != want {
		t.Errorf("%+v %v", p, ok)
	}
	for _, bad := range []string{"", "17", "17 (x)", "x (y) S 1 2", "1 (y) S a 2", ") ("} {
		if p, ok := parseStat(bad); ok {
			t.Errorf("%q gave %+v", bad, p)
		}
	}
}

func TestReadCharge(t *testing.T) {
	c, err := readCharge(strings.NewReader("mark M\nadd 12\nadd 13\ndrop 12\n"))
	if err != nil || c.mark != "M" || len(c.groups) != 1 || !c.groups[13] {
		t.Errorf("%+v, %v", c, err)
	}
	// A group id of 0 or 1 would mean the guard's own group, or everybody.
	for _, bad := range []string{"add 0", "add 1", "add -5", "add x", "kill 7", ""} {
		if _, err := readCharge(strings.NewReader(bad + "\n")); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
