package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/launcher"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/proc"
	"github.com/ddprun/ddprun/worker/data"
)

// launch is one command line that starts ranks.
type launch struct {
	flags          *launchFlags
	environ        []string
	stdout, stderr *os.File
	warnings       []string // said once there is something to say them with
}

// main runs the command line to its end and returns the exit code.
func (l *launch) main(args []string) (int, error) {
	cfg, err := l.plan(args)
	if err != nil {
		return 0, err
	}
	if l.flags.dryRun {
		return exitcode.OK, printPlan(l.stdout, cfg)
	}
	return l.run(cfg)
}

// plan turns the command line, the environment and the job file into what the
// launcher needs. Nothing is started and nothing is written.
func (l *launch) plan(args []string) (launcher.Config, error) {
	f := l.flags
	rest, err := f.parse(args, false)
	if err != nil {
		return launcher.Config{}, err
	}
	jobFile := ""
	if len(rest) > 0 && f.all.ArgsLenAtDash() != 0 && isJobFile(rest[0]) {
		jobFile = rest[0]
		more, err := f.parse(rest[1:], true)
		if err != nil {
			return launcher.Config{}, err
		}
		if len(more) > 0 {
			return launcher.Config{}, exitcode.With(fmt.Errorf("unexpected argument %q behind the job file %s", more[0], jobFile), exitcode.Usage)
		}
	}
	if err := f.readEnvironment(os.LookupEnv); err != nil {
		return launcher.Config{}, err
	}
	if err := l.leftovers(jobFile); err != nil {
		return launcher.Config{}, err
	}
	if jobFile != "" {
		return l.planJob(jobFile)
	}
	return l.planProgram(rest)
}

func isJobFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// leftovers decides about rank variables in the launcher's own environment. An
// earlier shell or an outer launcher has left them, and they are ignored with a
// warning. But a rank's variables beside a job file without --nproc-per-node
// look like somebody starting the ranks by hand, as one does with python: what
// is wrong with the variables is said, and if nothing is, that ddprun starts
// the ranks itself.
func (l *launch) leftovers(jobFile string) error {
	found := rankenv.Leftovers(l.environ)
	if len(found) == 0 {
		return nil
	}
	if jobFile == "" || l.flags.given("nproc-per-node") || !rankenv.ByHand(l.environ) {
		l.warn("ignored from the environment: %s (ddprun gives each rank its own)", strings.Join(found, ", "))
		return nil
	}
	if _, err := rankenv.Read(os.LookupEnv); err != nil {
		return err
	}
	return exitcode.With(fmt.Errorf("%s are set as for a rank that is started by hand, but ddprun starts all ranks of a job itself: unset them, or give --nproc-per-node to have them ignored", strings.Join(found, ", ")), exitcode.Usage)
}

func (l *launch) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// planProgram is a launch of any program.
func (l *launch) planProgram(words []string) (launcher.Config, error) {
	f := l.flags
	if len(words) == 0 {
		return launcher.Config{}, exitcode.With(errors.New("no command: name a job file or a program to start (ddprun --help)"), exitcode.Usage)
	}
	var v values
	place := newPlacement(programDevice(&v, f.set, words[0]), nil)
	if f.module && f.noPython {
		v.bad("--module and --no-python cannot be given together")
	}
	cfg, err := l.common(&v, place, f.nproc, "--nproc-per-node", f.nnodes, f.maxRestartsOr(0))
	if uerr := v.err(); uerr != nil {
		err = uerr
	}
	if err != nil {
		return launcher.Config{}, err
	}
	cfg.Name = strings.TrimSuffix(filepath.Base(words[0]), filepath.Ext(words[0]))
	cfg.Command.Args = f.command(words)
	err = l.placeProgram(&cfg, place)
	return cfg, err
}

// placeProgram sees to the devices of a program's ranks.
func (l *launch) placeProgram(cfg *launcher.Config, place *placement) error {
	if place.byGPU {
		place.each(cfg)
		if len(cfg.Command.RankEnv) > 0 {
			l.warn("GPUs are named by id: each rank sees its own only, as device 0; with --nproc-per-node=%d every rank sees the whole list, as under torchrun", cfg.Ranks)
		}
	}
	if place.device != "cuda" {
		return nil
	}
	list, err := place.gpus()
	switch {
	case err != nil:
		return fmt.Errorf("device: cuda: %w", err)
	case len(list.Devices) == 0:
		return exitcode.With(fmt.Errorf("device: cuda: there is no GPU: %s", list.Why), exitcode.Machine)
	}
	return place.fit(cfg.Ranks, l.warn)
}

// command is what a rank executes for the words of a command line.
func (f *launchFlags) command(words []string) []string {
	python := os.Getenv("PYTHON_EXEC")
	if python == "" {
		python = "python3"
	}
	switch {
	case f.module:
		return append([]string{python, "-u", "-m"}, words...)
	case !f.noPython && strings.HasSuffix(words[0], ".py"):
		return append([]string{python, "-u"}, words...)
	}
	return words
}

// planJob is a launch of a job file.
func (l *launch) planJob(path string) (launcher.Config, error) {
	f := l.flags
	var v values
	if f.module || f.noPython {
		v.bad("--module and --no-python are for programs, and %s is a job file", path)
	}
	overrides := f.set
	if f.debugBarrier != "" {
		overrides = append(overrides, "debug.barrier_timeout="+v.duration("debug-barrier", f.debugBarrier, 1).String())
	}
	j, err := job.Load(path, overrides)
	if err != nil {
		return launcher.Config{}, err
	}
	nproc, where := j.Launch.NprocPerNode, "launch.nproc_per_node"
	if f.given("nproc-per-node") {
		nproc, where = f.nproc, "--nproc-per-node"
	}
	nnodes := j.Launch.NNodes
	if f.given("nnodes") {
		nnodes = f.nnodes
	}
	place, worker, werr := l.place(j)
	cfg, err := l.common(&v, place, nproc, where, nnodes, f.maxRestartsOr(j.Launch.MaxRestarts))
	for _, first := range []error{werr, v.err()} {
		if first != nil {
			err = first
		}
	}
	if err != nil {
		return launcher.Config{}, err
	}
	j.Launch = job.Launch{NprocPerNode: fmt.Sprint(cfg.Ranks), NNodes: nnodes, MaxRestarts: cfg.MaxRestarts}
	cfg.Command.Args = worker
	return l.withJob(cfg, place, j)
}

// place settles where a job's ranks compute, and with which program if it is
// one of ours.
func (l *launch) place(j *job.Job) (*placement, []string, error) {
	if j.Program != nil {
		return newPlacement(j.Device, j.Program.Env), nil, nil
	}
	place := newPlacement(j.Device, nil)
	worker, err := place.chooseWorker(j, l.warn)
	if err != nil {
		place.device = "cpu" // so that nothing is asked twice; the launch ends anyway
	}
	return place, worker, err
}

// withJob adds what the job file says.
func (l *launch) withJob(cfg launcher.Config, place *placement, j *job.Job) (launcher.Config, error) {
	cfg.Name = j.Name
	var text bytes.Buffer
	if err := j.Write(&text); err != nil {
		return launcher.Config{}, err
	}
	cfg.Files = map[string][]byte{"job.yaml": text.Bytes()}
	if j.Program != nil {
		cfg.Command = launcher.Command{Args: j.Program.Command, Env: j.Program.Env}
		err := l.placeProgram(&cfg, place)
		return cfg, err
	}
	cfg.Worker = true
	cfg.NoRetry = []int{exitcode.Data, exitcode.Machine}
	if place.device == "cuda" {
		place.each(&cfg)
		if err := place.fit(cfg.Ranks, l.warn); err != nil {
			return cfg, err
		}
	} else if j.Precision != "fp32" {
		return cfg, exitcode.With(fmt.Errorf("precision: %s needs a GPU, and this job computes on the CPU; leave it at fp32", j.Precision), exitcode.Usage)
	}
	// A file that no rank could read is said before any is started.
	return cfg, data.Preflight(j.Data)
}

// maxRestartsOr is --max-restarts if given, else def, as text.
func (f *launchFlags) maxRestartsOr(def int) string {
	if f.given("max-restarts") {
		return f.maxRestarts
	}
	return fmt.Sprint(def)
}

// common reads the flags that jobs and programs share. What is wrong with them is in v; an error is one of the machine.
func (l *launch) common(v *values, place *placement, nproc, where, nnodes, maxRestarts string) (launcher.Config, error) {
	f := l.flags
	ranks, machineErr := v.ranks(where, nproc, place.count)
	v.nodes("--nnodes", nnodes)
	if f.nodeRank != "0" {
		v.bad("--node-rank is %q: want 0, the only node", f.nodeRank)
	}
	cfg := launcher.Config{
		RunID: f.rdzvID, LogDir: f.logDir, Ranks: ranks, Role: f.role,
		MaxRestarts: v.whole("max-restarts", maxRestarts, 0, 1<<20),
		Grace:       v.duration("shutdown-timeout", f.shutdownTimeout, 0),
		Master:      v.master(f),
		Output:      v.output(f, ranks),
		Environ:     l.environ,
	}
	if f.timeout != "" {
		cfg.Timeout = v.duration("timeout", f.timeout, 1)
	}
	if f.debugBarrier != "" {
		cfg.BarrierTimeout = v.duration("debug-barrier", f.debugBarrier, 1)
	}
	if f.given("rdzv-id") {
		if err := launcher.CheckRunID(f.rdzvID); err != nil {
			v.errs = append(v.errs, fmt.Errorf("--rdzv-id: %w", err))
		}
	}
	if f.logDir == "" {
		v.bad("--log-dir is empty")
	}
	v.rendezvous(f)
	for _, name := range []string{"monitor-interval", "start-method", "event-log-handler"} {
		if f.given(name) {
			l.warn("--%s is accepted for torchrun's sake and has no effect", name)
		}
	}
	return cfg, machineErr
}

// run starts the ranks and ends with the last of them.
func (l *launch) run(cfg launcher.Config) (int, error) {
	// Without this a console that is closed ends the launcher instead of giving
	// an error.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	var log *zap.Logger
	console := logs.NewConsole(l.stdout, l.stderr, func(lost []logs.Loss) { launcher.WarnLost(log, lost) })
	log = newLogger(console, l.flags.verbose)
	for _, w := range l.warnings {
		log.Warn(w)
	}
	l.sayThreads(log, cfg)
	exe, err := os.Executable()
	if err != nil {
		return 0, exitcode.With(fmt.Errorf("find this program's own file: %w", err), exitcode.Machine)
	}
	cfg.Console, cfg.Log = console, log
	cfg.Signals = listen()
	cfg.Proc = proc.Options{Guard: []string{exe, guardCommand}, Exclusive: true}

	verdict, err := launcher.Run(context.Background(), cfg)
	console.Close()
	if err != nil {
		// Through the console, which survives a closed stream.
		return report(console.Writer(logs.Stderr), err), nil
	}
	launcher.Report(console.Writer(logs.Stderr), &verdict)
	return verdict.Code, nil
}

// listen asks for the launcher's signals. A hang-up that was ignored when the
// program started, as under nohup, stays ignored, by the ranks too.
func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range launcher.Signals() {
		if s == syscall.SIGHUP && signal.Ignored(s) {
			continue
		}
		signal.Notify(signals, s)
	}
	return signals
}

func (l *launch) sayThreads(log *zap.Logger, cfg launcher.Config) {
	if !cfg.Worker && (rankenv.Env{LocalWorldSize: cfg.Ranks}).SetsThreads(l.environ) {
		log.Info("OMP_NUM_THREADS=1 for each rank, so that they do not fight for the cores; set it to choose otherwise")
	}
}

// newLogger logs to the console's standard error.
func newLogger(console *logs.Console, verbose int) *zap.Logger {
	level := zapcore.WarnLevel - zapcore.Level(min(verbose, 2))
	enc := zapcore.EncoderConfig{
		MessageKey: "msg", LevelKey: "level", ConsoleSeparator: " ",
		EncodeLevel: func(l zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
			name := l.String()
			if l == zapcore.WarnLevel {
				name = "warning"
			}
			out.AppendString("ddprun: " + name + ":")
		},
		EncodeDuration: zapcore.StringDurationEncoder,
	}
	if verbose > 0 {
		enc.TimeKey, enc.EncodeTime = "time", zapcore.TimeEncoderOfLayout("15:04:05.000")
	}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.AddSync(console.Writer(logs.Stderr)), level))
}
