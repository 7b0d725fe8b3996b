package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// guardFD is where a guard finds its pipe.
const guardFD = 3

// guardClient is the launcher's end of the guard. The guard learns group ids
// over a pipe whose closing without a farewell means that the launcher died.
type guardClient struct {
	pid  int
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	pipe *os.File
}

func startGuard(command []string, mark string) (*guardClient, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.ExtraFiles = []*os.File{r} // becomes guardFD
	// A session of its own: neither the terminal nor a signal to the
	// launcher's group may end the guard first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	g := &guardClient{pid: cmd.Process.Pid, cmd: cmd, done: make(chan struct{}), pipe: w}
	go func() {
		defer close(g.done)
		_ = cmd.Wait()
	}()
	g.say("mark " + mark)
	return g, nil
}

// say writes one line. A guard that is gone is reported through done.
func (g *guardClient) say(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = io.WriteString(g.pipe, line+"\n")
}

func (g *guardClient) add(group int)  { g.say("add " + strconv.Itoa(group)) }
func (g *guardClient) drop(group int) { g.say("drop " + strconv.Itoa(group)) }

// stop ends the guard when nothing is left to guard. It is killed rather than
// asked, because a short job may be over before the guard has come up.
func (g *guardClient) stop() {
	_ = g.cmd.Process.Kill()
	<-g.done
	_ = g.pipe.Close()
}

// RunGuard is the whole life of a guard process: it waits for the launcher at
// the other end of descriptor 3 to die, and then kills what the launcher had
// started. It returns when nothing is left to do.
func RunGuard() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGTSTP)
	renameSelf("ddp-guard")
	pipe := os.NewFile(guardFD, "guard pipe")
	if pipe == nil {
		return fmt.Errorf("guard: no pipe on descriptor %d: it is started by ddprun, not by hand", guardFD)
	}
	defer pipe.Close()
	charge, err := readCharge(pipe)
	if err != nil {
		return err
	}
	charge.kill()
	return nil
}

// charge is what a guard answers for.
type charge struct {
	mark   string
	groups map[int]bool
}

// readCharge follows the launcher's messages until the pipe closes.
func readCharge(r io.Reader) (charge, error) {
	c := charge{groups: map[int]bool{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		group, err := strconv.Atoi(arg)
		switch {
		case verb == "mark":
			c.mark = arg
		case verb == "add" && err == nil && group > 1:
			c.groups[group] = true
		case verb == "drop":
			delete(c.groups, group)
		default:
			return c, fmt.Errorf("guard: bad message %q", lines.Text())
		}
	}
	// A read error means the same as the end: nobody is at the other end.
	return c, nil
}

// kill ends the groups, then what carries the mark; new processes may appear
// while it works, so it goes round until a look finds none.
func (c charge) kill() {
	for range 100 {
		for group := range c.groups {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
		marked := c.marked()
		for _, pid := range marked {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(marked) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c charge) marked() []int {
	if c.mark == "" {
		return nil
	}
	return carriers(c.mark)
}
