package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Time limits of the copies. A driver needs up to some seconds to start eight
// GPUs that were asleep; libraries of several hundred megabytes may come over
// the network.
const (
	deviceLimit  = 10 * time.Second
	libraryLimit = 30 * time.Second
)

// maxAnswer bounds what is read of a copy's output.
const maxAnswer = 4 << 20

// AskDevices runs command, which must end in a call of Devices and print its
// result as JSON. An error (exit class Machine) says what became of the copy,
// or what is wrong with the driver; a machine without GPUs is no error.
func AskDevices(ctx context.Context, command []string) (Machine, error) {
	m, err := exchange[Machine](ctx, command, "the NVIDIA driver", deviceLimit)
	switch {
	case err != nil:
		return Machine{}, err
	case m.Fault != nil:
		return m, exitcode.With(fmt.Errorf("NVIDIA driver: %s; %s", m.Fault.Text, m.Fault.Remedy), exitcode.Machine)
	}
	return m, nil
}

// AskLibraries is AskDevices for Libraries.
func AskLibraries(ctx context.Context, command []string) ([]Library, error) {
	return exchange[[]Library](ctx, command, "the GPU libraries", libraryLimit)
}

// exchange runs one copy.
func exchange[T any](ctx context.Context, command []string, what string, limit time.Duration) (T, error) {
	var answer, zero T
	out, err := run(ctx, command, limit)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(out))
		dec.DisallowUnknownFields()
		if jerr := dec.Decode(&answer); jerr != nil {
			err = fmt.Errorf("it printed %s where an answer was expected (%w)", excerpt(out), jerr)
		}
	}
	if err != nil {
		return zero, exitcode.With(fmt.Errorf("asking %s: the probe process failed: %w; run nvidia-smi, look at dmesg for lines with NVRM or Xid, and install the driver again or reboot", what, err), exitcode.Machine)
	}
	return answer, nil
}

// run returns what the copy wrote to standard output. A copy that cannot even
// be killed, because it hangs in the kernel, is left behind: there is no way to
// wait for it.
func run(ctx context.Context, command []string, limit time.Duration) ([]byte, error) {
	stdout, stderr := &bounded{limit: maxAnswer}, &bounded{limit: 64 << 10}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "GOTRACEBACK=none")
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var why error
	select {
	case err := <-ended:
		return stdout.bytes(), explain(err, stderr.bytes())
	case <-timer.C:
		why = fmt.Errorf("it gave no answer within %v and was killed", limit)
	case <-ctx.Done():
		why = ctx.Err()
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may just have ended
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		why = fmt.Errorf("%w; it hangs in the kernel and cannot be killed (pid %d)", why, cmd.Process.Pid)
	}
	return nil, why
}

// explain makes one line of how a copy ended.
func explain(err error, stderr []byte) error {
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return err
	}
	how := fmt.Sprintf("it ended with exit code %d", exit.ExitCode())
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		how = fmt.Sprintf("it was ended by signal %d (%v)", int(w.Signal()), w.Signal())
	}
	if said := strings.TrimSpace(string(stderr)); said != "" {
		return fmt.Errorf("%s after saying %s", how, excerpt([]byte(said)))
	}
	return errors.New(how)
}

// excerpt is the first line of b, quoted and not too long.
func excerpt(b []byte) string {
	if len(bytes.TrimSpace(b)) == 0 {
		return "nothing"
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	if len(line) > 160 {
		line = append(line[:160:160], "..."...)
	}
	return fmt.Sprintf("%q", line)
}
