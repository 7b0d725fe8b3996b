package launcher

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/policy"
	"github.com/ddprun/ddprun/launcher/proc"
)

// drainLimit is how long output may still come once nothing of the attempt is
// left to write it.
const drainLimit = 2 * time.Second

// attempt is one start of all ranks of this node.
type attempt struct {
	job     *job
	world   World
	number  int
	restart int
	began   time.Time
	mux     *logs.Mux
	ranks   []*rank
	swept   []proc.Leftover
}

// rank is one started process with its output.
type rank struct {
	record  Rank
	process *proc.Process // nil: not started
	streams [2]*logs.Stream
}

func newAttempt(j *job, w World, number, restart int) *attempt {
	return &attempt{
		job: j, world: w, number: number, restart: restart, began: time.Now(),
		mux: logs.NewMux(j.cfg.Console, func(lost []logs.Loss) { WarnLost(j.cfg.Log, lost) }),
	}
}

// start starts the ranks in order; an error names the local rank that could not
// be started, and those below it run.
func (a *attempt) start() (int, error) {
	for i := range a.job.cfg.Ranks {
		r := &rank{record: Rank{
			Rank: a.world.FirstRank + i, LocalRank: i,
			LogDir: filepath.Join(a.job.dir.path, rankName(a.number, a.world.FirstRank+i)),
		}}
		a.ranks = append(a.ranks, r)
		if err := a.startRank(r); err != nil {
			r.record.Message, r.record.Code = err.Error(), exitcode.Of(err)
			return i, err
		}
		go a.watch(i, r)
	}
	a.job.cfg.Log.Info("ranks started", zap.Int("attempt", a.number), zap.Int("ranks", len(a.ranks)),
		zap.Duration("after", time.Since(a.job.began)), zap.String("run", a.job.dir.path))
	return 0, nil
}

func (a *attempt) startRank(r *rank) error {
	if err := a.job.dir.rank(a.number, r.record.Rank); err != nil {
		return err
	}
	if err := a.openStreams(r); err != nil {
		return err
	}
	cfg := &a.job.cfg
	process, err := a.job.sup.Start(proc.Spec{
		Args:   cfg.Command.args(r.record.LocalRank),
		Env:    a.environ(r),
		Dir:    cfg.Command.Dir,
		Stdout: r.streams[0].Child(),
		Stderr: r.streams[1].Child(),
	})
	for _, s := range r.streams {
		s.Release()
	}
	if err != nil {
		return err
	}
	r.process = process
	r.record.PID = process.PID()
	return nil
}

func (a *attempt) environ(r *rank) []string {
	cfg := &a.job.cfg
	env := a.world.env(r.record.LocalRank, cfg.Ranks, cfg.Role)
	env.RunID = cfg.RunID
	env.RunDir = a.job.dir.path
	env.Attempt = a.number
	env.RestartCount = a.restart
	env.MaxRestarts = cfg.MaxRestarts
	env.ErrorFile = filepath.Join(r.record.LogDir, errorFileName)
	env.Timeout = cfg.Timeout
	env.BarrierTimeout = cfg.BarrierTimeout
	env.Progress = rankenv.ProgressLines
	if cfg.Console.Terminal(logs.Stdout) || cfg.Console.Terminal(logs.Stderr) {
		env.Progress = rankenv.ProgressBar
	}
	return env.Environ(cfg.Command.environ(cfg.Environ, r.record.LocalRank))
}

const errorFileName = "error.json"

// openStreams connects a rank's output to its files and the console.
func (a *attempt) openStreams(r *rank) error {
	show := [2]bool{true, true}
	if out := a.job.cfg.Output; out != nil {
		show[0], show[1] = out(r.record.LocalRank)
	}
	prefix := ""
	if a.world.Size > 1 {
		prefix = "[rank " + strconv.Itoa(r.record.Rank) + "] "
	}
	for i, name := range []string{"stdout.log", "stderr.log"} {
		file, err := a.job.dir.create(filepath.Join(rankName(a.number, r.record.Rank), name))
		if err != nil {
			return err
		}
		r.streams[i], err = a.mux.Open(logs.Spec{
			Owner: 2*r.record.Rank + i, Target: logs.Target(i), Show: show[i], Prefix: prefix,
			File: file, Name: filepath.Join(r.record.LogDir, name),
		})
		if err != nil {
			return exitcode.With(errors.Join(err, file.Close()), exitcode.Machine)
		}
	}
	return nil
}

// watch waits for a rank and reports its end.
func (a *attempt) watch(i int, r *rank) {
	<-r.process.Done()
	st := r.process.Status()
	exit := policy.Exit{Code: st.ExitCode(), Signal: int(st.Signal)}
	report, ok := a.report(r)
	exit.Victim = ok && report.Victim
	a.job.events <- func(j *job) []policy.Action {
		if j.current != a { // reported too late to matter
			return nil
		}
		r.record.Message, r.record.Stack = report.Message, report.Stack
		return j.step(policy.Exited{Rank: i, Exit: exit})
	}
}

// report reads the error file of a rank that has ended.
func (a *attempt) report(r *rank) (rankenv.Report, bool) {
	name := filepath.Join(rankName(a.number, r.record.Rank), errorFileName)
	f, err := a.job.dir.root.Open(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrClosed) {
			a.job.cfg.Log.Warn("error file of a rank", zap.Int("rank", r.record.Rank), zap.Error(err))
		}
		return rankenv.Report{}, false
	}
	defer f.Close()
	report, err := rankenv.ReadReport(f)
	if err != nil {
		a.job.cfg.Log.Warn("error file of a rank", zap.Int("rank", r.record.Rank), zap.Error(err))
		return rankenv.Report{}, false
	}
	return report, true
}

func (a *attempt) signalGroups(sig syscall.Signal, log *zap.Logger) {
	for _, r := range a.ranks {
		if r.process != nil {
			if err := r.process.SignalGroup(sig); err != nil {
				log.Warn("signal a rank", zap.Int("rank", r.record.Rank), zap.Error(err))
			}
		}
	}
}

// signalLeaders signals the ranks themselves and nothing that they started: a
// warning such as SIGUSR1 would end a child that does not expect it.
func (a *attempt) signalLeaders(sig syscall.Signal, log *zap.Logger) {
	for _, r := range a.ranks {
		if r.process != nil {
			if err := r.process.Signal(sig); err != nil {
				log.Warn("signal a rank", zap.Int("rank", r.record.Rank), zap.Error(err))
			}
		}
	}
}

// close collects the output and says what became of every rank.
func (a *attempt) close(o policy.Over) Attempt {
	record := Attempt{Number: a.number, Started: a.began, Culprit: o.Culprit, Swept: a.swept}
	for i := range a.job.cfg.Ranks {
		r := &rank{record: Rank{Rank: a.world.FirstRank + i, LocalRank: i}}
		if i < len(a.ranks) {
			r = a.ranks[i]
		}
		r.finish()
		r.record.Fate = o.Fates[i]
		record.Ranks = append(record.Ranks, r.record)
	}
	a.job.verdict.Lost = append(a.job.verdict.Lost, a.mux.Close()...)
	record.Ended = time.Now()
	return record
}

// finish drains a rank's output and notes its end.
func (r *rank) finish() {
	for _, s := range r.streams {
		if s != nil {
			s.Release()
			s.Drain(drainLimit)
		}
	}
	if r.process == nil {
		return
	}
	select {
	case <-r.process.Done():
	case <-time.After(drainLimit): // immortal
		return
	}
	st := r.process.Status()
	r.record.Code, r.record.Signal, r.record.Core = st.Code, st.Signal, st.Core
	r.record.Started, r.record.Ended = st.Started, st.Ended
	r.record.CPU, r.record.MaxRSS = st.CPU, st.MaxRSS
	for i, name := range []string{"stderr", "stdout"} {
		if tail := r.streams[1-i].Tail(); len(tail) > 0 {
			r.record.Tail, r.record.TailOf = tail, name
			break
		}
	}
}
