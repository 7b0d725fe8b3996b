package rankcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker"
)

// New is the command `worker`: it trains the job of DDPRUN_RUN_DIR as the rank
// that its environment names.
func New(b worker.Backends) *cobra.Command {
	return &cobra.Command{
		Use:           "worker",
		Short:         "one rank of a training job; started by the launcher",
		Hidden:        true,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), b) },
	}
}

// run trains, and leaves why it failed where the launcher looks for it.
func run(ctx context.Context, b worker.Backends) error {
	env, err := rankenv.Read(os.LookupEnv)
	if err != nil {
		return err
	}
	err = train(ctx, env, b)
	if err == nil {
		return nil
	}
	report := rankenv.Report{Message: err.Error(), Victim: isVictim(err)}
	if werr := env.WriteReport(report); werr != nil {
		return exitcode.With(fmt.Errorf("%w (and its report could not be written: %w)", err, werr), exitcode.Of(err))
	}
	if env.ErrorFile != "" {
		// The launcher says it, once for all ranks, as the last thing.
		return Silent{err}
	}
	return err
}

// isVictim tells ranks that only saw another one go from the one that failed.
func isVictim(err error) bool {
	var agreed *worker.Failure
	return !errors.As(err, &agreed) && (errors.Is(err, collective.ErrPeerLost) || errors.Is(err, collective.ErrClosed))
}

// Silent is an error that has been reported already.
type Silent struct{ error }

// Unwrap gives the error itself, with its exit code.
func (s Silent) Unwrap() error { return s.error }

func train(ctx context.Context, env rankenv.Env, b worker.Backends) error {
	j, err := job.Load(filepath.Join(env.RunDir, "job.yaml"), nil)
	if err != nil {
		return err
	}
	return worker.Run(ctx, worker.Config{Job: j, Env: env, Backends: b, Log: logger(env), Console: os.Stdout})
}

// logger writes lines for people to stderr, each with who wrote it.
func logger(env rankenv.Env) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	cfg.EncodeLevel = zapcore.CapitalLevelEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(cfg), zapcore.Lock(os.Stderr), zap.InfoLevel)
	return zap.New(core).With(zap.Int("rank", env.Rank), zap.Int("local_rank", env.LocalRank), zap.Int("node", env.GroupRank))
}

// OpenStore reaches the launcher's store; keys are those of the run and the
// attempt alone.
func OpenStore(ctx context.Context, env rankenv.Env) (store.Store, error) {
	c, err := store.Dial(ctx, env.Store, env.Token)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("rank %d: the launcher's store: %w", env.Rank, err), exitcode.Rendezvous)
	}
	return store.Prefix(c, fmt.Sprintf("%s/%d", env.RunID, env.Attempt)), nil
}
