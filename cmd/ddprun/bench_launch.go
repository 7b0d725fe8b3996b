package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// benchVariable carries the plan to the ranks.
const benchVariable = "DDPRUN_BENCH"

// launchBench starts the ranks through ddprun itself and passes on the rows
// that rank 0 writes into a named pipe: its output is for messages.
func launchBench(ctx context.Context, stderr io.Writer, p benchPlan, print func(benchRow) error) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	dir, err := os.MkdirTemp("", "ddprun-bench-")
	if err != nil {
		return exitcode.With(fmt.Errorf("make a temporary folder: %w", err), exitcode.Machine)
	}
	good := false
	defer func() {
		if good { // otherwise the launcher has named the log of a rank in it
			_ = os.RemoveAll(dir)
		}
	}()
	rows, err := openPipe(filepath.Join(dir, "rows"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return exitcode.With(err, exitcode.Machine)
	}
	defer func() { _ = rows.Close() }()
	p.Rows = rows.Name()
	plan, err := json.Marshal(p)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, exe, "--nproc-per-node", strconv.Itoa(p.World), "--log-dir", dir, "--", exe, "bench-rank")
	cmd.Env = append(os.Environ(), benchVariable+"="+string(plan))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 40 * time.Second // the launcher's own patience with ranks, and more
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the ranks: %w", err)
	}
	printed := make(chan error, 1)
	go func() {
		err := printRows(rows, print)
		if err != nil {
			stop()
		}
		printed <- err
	}()
	err = cmd.Wait()
	// The pipe is open for writing here, too, so that it has no end by itself.
	_, _ = rows.WriteString("\n")
	if perr := <-printed; perr != nil {
		return perr
	}
	good = err == nil || ctx.Err() != nil
	return launchError(ctx, err, stderr, said.Bytes())
}

// openPipe makes a named pipe and opens it on both sides: it is there before a
// writer comes, and stays when one goes.
func openPipe(path string) (*os.File, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make the pipe %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// launchError shows what the launcher and the ranks said if they failed, and
// takes over the exit code.
func launchError(ctx context.Context, err error, stderr io.Writer, said []byte) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, _ = stderr.Write(said)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitcode.With(errors.New("the ranks failed, as said above"), exit.ExitCode())
	}
	return fmt.Errorf("the launcher failed: %w", err)
}

// printRows passes on rows until an empty line.
func printRows(r io.Reader, print func(benchRow) error) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(lines.Bytes()) > 0 {
		var row benchRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("rank 0 wrote %.80q: %w", lines.Bytes(), err)
		}
		if err := print(row); err != nil {
			return err
		}
	}
	return lines.Err()
}

// newBenchRankCommand is a rank of the benchmark. It is not for users.
func newBenchRankCommand() *cobra.Command {
	return &cobra.Command{
		Use:           "bench-rank",
		Hidden:        true,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var p benchPlan
			if err := json.Unmarshal([]byte(os.Getenv(benchVariable)), &p); err != nil {
				return exitcode.With(fmt.Errorf("bench-rank: %s: %w (use ddprun bench)", benchVariable, err), exitcode.Usage)
			}
			return runBenchRank(benchContext(cmd), p)
		},
	}
}

func benchContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
