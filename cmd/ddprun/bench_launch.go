package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/rankenv"
)

// benchVariable carries the plan to the ranks, and to the launcher whose start
// is measured.
const benchVariable = "DDPRUN_BENCH"

// launchBench starts the ranks as processes of this executable and passes on
// the rows that rank 0 prints.
func launchBench(ctx context.Context, stderr io.Writer, p benchPlan, print func(benchRow) error) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	token := store.NewToken()
	server, err := store.Listen(ctx, "127.0.0.1:0", token)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	host, portText, err := net.SplitHostPort(server.Addr())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	defer func() { _ = r.Close() }()

	var running sync.WaitGroup
	errs := make(chan error, p.World)
	for rank := range p.World {
		env := rankenv.Env{
			Rank: rank, LocalRank: rank, WorldSize: p.World, LocalWorldSize: p.World, GroupWorldSize: 1,
			RoleName: "bench", RoleRank: rank, RoleWorldSize: p.World, MasterAddr: host, MasterPort: port,
			RunID: "bench", Store: server.Addr(), Token: token, RunDir: os.TempDir(),
		}
		cmd := exec.CommandContext(ctx, exe, "bench-rank")
		cmd.Env = append(env.Environ(os.Environ()), benchVariable+"="+string(plan))
		cmd.Stderr = stderr
		if rank == 0 {
			cmd.Stdout = w
		}
		dieWithParent(cmd)
		if err := cmd.Start(); err != nil {
			stop()
			errs <- fmt.Errorf("start rank %d: %w", rank, err)
			break
		}
		running.Go(func() {
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				errs <- fmt.Errorf("rank %d: %w", rank, err)
				stop() // the others would wait for it
			}
		})
	}
	_ = w.Close()
	printed := printRows(r, print)
	if printed != nil {
		stop()
	}
	running.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return exitcode.With(err, exitcode.Failure)
	}
	return errors.Join(printed, context.Cause(ctx))
}

// printRows passes on rows until the ranks have closed their end.
func printRows(r io.Reader, print func(benchRow) error) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var row benchRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("rank 0 printed %.80q: %w", lines.Bytes(), err)
		}
		if err := print(row); err != nil {
			return err
		}
	}
	return lines.Err()
}

// launchOnce starts a launcher that starts the ranks once, and returns the
// seconds from p.Begin to the moment the slowest rank was through.
func launchOnce(ctx context.Context, stderr io.Writer, p benchPlan) (float64, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this executable: %w", err)
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, exe, "bench-rank", "--launch")
	cmd.Env = append(os.Environ(), benchVariable+"="+string(plan))
	cmd.Stderr = stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	var row benchRow
	if err := json.Unmarshal(out.Bytes(), &row); err != nil {
		return 0, fmt.Errorf("the launcher printed %.80q: %w", out.String(), err)
	}
	return row.US / 1e6, nil
}

// newBenchRankCommand is a rank of the benchmark, or (with --launch) the
// launcher whose start is measured. It is not for users.
func newBenchRankCommand() *cobra.Command {
	launch := false
	cmd := &cobra.Command{
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
			enc := json.NewEncoder(cmd.OutOrStdout())
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			if launch {
				return launchBench(ctx, cmd.ErrOrStderr(), p, func(r benchRow) error { return enc.Encode(r) })
			}
			return runBenchRank(ctx, p, func(r benchRow) error { return enc.Encode(r) })
		},
	}
	cmd.Flags().BoolVar(&launch, "launch", false, "start the ranks")
	return cmd
}
