package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/policy"
	"github.com/ddprun/ddprun/launcher/proc"
)

// Run runs a job on this node until it has ended and nothing of it is left. The
// verdict says how it went; an error means that the launcher itself could not
// do its work, and carries the exit code of its class. When ctx ends, the job
// is stopped as if by SIGTERM.
func Run(ctx context.Context, cfg Config) (Verdict, error) {
	if err := cfg.check(); err != nil {
		return Verdict{}, err
	}
	dir, err := openRunDir(cfg.LogDir, cfg.RunID)
	if err != nil {
		return Verdict{}, err
	}
	defer dir.close()
	for name, data := range cfg.Files {
		if err := dir.replace(name, data); err != nil {
			return Verdict{}, err
		}
	}
	sup, err := proc.New(cfg.Proc)
	if err != nil {
		return Verdict{}, exitcode.With(err, exitcode.Machine)
	}
	j := newJob(cfg, dir, sup)
	err = j.loop(ctx)
	j.conclude(errors.Join(err, sup.Close()))
	return j.verdict, err
}

// job is one run in progress.
type job struct {
	cfg     Config
	dir     *runDir
	sup     *proc.Supervisor
	meet    Rendezvous
	began   time.Time
	machine *policy.Machine
	todo    []policy.Action
	events  chan func(*job) []policy.Action // run by the loop
	current *attempt                        // nil between attempts
	hurry   chan struct{}
	guard   <-chan struct{}
	verdict Verdict

	cancelled bool // ctx has ended
	warned    bool // about summary.json
	done      bool
}

func newJob(cfg Config, dir *runDir, sup *proc.Supervisor) *job {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	j := &job{
		cfg: cfg, dir: dir, sup: sup, meet: cfg.Rendezvous, began: time.Now(),
		// Every rank sends one event, the sweep one more.
		events: make(chan func(*job) []policy.Action, cfg.Ranks+1),
		guard:  sup.GuardDone(),
	}
	if j.meet == nil {
		j.meet = &oneNode{master: cfg.Master}
	}
	j.verdict = Verdict{
		RunID: cfg.RunID, RunDir: dir.path, Host: host, Started: j.began,
		Grace: cfg.Grace, MaxRestarts: cfg.MaxRestarts, Worker: cfg.Worker,
	}
	j.machine, j.todo = policy.New(policy.Settings{
		Ranks: cfg.Ranks, MaxRestarts: cfg.MaxRestarts, Grace: cfg.Grace,
		NoRetry: append([]int{exitcode.Usage, exitcode.NotExec, exitcode.NotFound}, cfg.NoRetry...),
	})
	return j
}

// loop feeds events to the machine and carries out what it says.
func (j *job) loop(ctx context.Context) error {
	for {
		for len(j.todo) > 0 {
			a := j.todo[0]
			j.todo = j.todo[1:]
			if err := j.act(ctx, a); err != nil {
				return err
			}
		}
		if j.done {
			return nil
		}
		j.todo = j.next(ctx)
	}
}

// next waits for something to happen.
func (j *job) next(ctx context.Context) []policy.Action {
	var tick <-chan time.Time
	if deadline, ok := j.machine.Deadline(); ok {
		timer := time.NewTimer(deadline - time.Since(j.began))
		defer timer.Stop()
		tick = timer.C
	}
	cancelled := ctx.Done()
	if j.cancelled {
		cancelled = nil
	}
	select {
	case ev := <-j.events:
		return ev(j)
	case <-tick:
		return j.step(policy.Tick{})
	case sig := <-j.cfg.Signals:
		return j.signal(sig)
	case <-j.guard:
		j.guard = nil
		j.cfg.Log.Warn("the guard process has ended; if this launcher is killed with -9, what ranks started may live on")
		return nil
	case <-cancelled:
		j.cancelled = true
		return j.step(policy.Signal{Number: int(syscall.SIGTERM)})
	}
}

func (j *job) step(ev policy.Event) []policy.Action {
	return j.machine.Step(time.Since(j.began), ev)
}

// act carries out one action.
func (j *job) act(ctx context.Context, a policy.Action) error {
	switch a := a.(type) {
	case policy.Launch:
		return j.launch(ctx, a.Restart)
	case policy.Stop:
		j.current.signalGroups(syscall.Signal(a.Signal), j.cfg.Log)
	case policy.Kill:
		close(j.hurry)
		j.current.signalGroups(syscall.SIGKILL, j.cfg.Log)
	case policy.Sweep:
		go j.sweep(a, j.hurry)
	case policy.Note:
		j.tell(a)
	case policy.Over:
		j.over(a)
	case policy.Finish:
		j.verdict.Result, j.verdict.Code, j.done = a.Result, a.Result.Code, true
	}
	return nil
}

// launch gathers the nodes and starts this node's ranks.
func (j *job) launch(ctx context.Context, restart int) error {
	number, err := j.dir.attempt()
	if err != nil {
		return err
	}
	world, err := j.meet.Join(ctx, number, j.cfg.Ranks)
	if err != nil {
		return err
	}
	j.hurry = make(chan struct{})
	j.current = newAttempt(j, world, number, restart)
	rank, err := j.current.start()
	if err == nil {
		return nil
	}
	code := exitcode.Of(err)
	if code != exitcode.NotFound && code != exitcode.NotExec {
		return err // conclude closes the attempt
	}
	j.todo = append(j.todo, j.step(policy.StartFailed{Rank: rank, Code: code})...)
	return nil
}

// sweep clears away what ranks left behind. It runs beside the loop, so that
// signals are still heard.
func (j *job) sweep(s policy.Sweep, hurry <-chan struct{}) {
	grace := time.Until(j.began.Add(s.Deadline))
	left := j.sup.Terminate(!s.Ask)
	if len(left) > 0 && grace > 0 {
		j.sup.Await(grace, hurry)
	}
	immortal := j.sup.Kill()
	j.events <- func(j *job) []policy.Action {
		j.current.swept = left
		j.verdict.Immortal = immortal
		return j.step(policy.Swept{Immortal: len(immortal)})
	}
}

// over closes an attempt and writes down what became of it.
func (j *job) over(o policy.Over) {
	record := j.current.close(o)
	j.verdict.Attempts = append(j.verdict.Attempts, record)
	j.current = nil
	if err := j.meet.Leave(); err != nil {
		j.cfg.Log.Warn("leaving the attempt", zap.Error(err))
	}
	j.summarize()
}

// signal passes a signal on, or asks the machine to stop.
func (j *job) signal(sig os.Signal) []policy.Action {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return nil
	}
	j.cfg.Log.Debug("signal", zap.Stringer("signal", n))
	if stops(n) {
		return j.step(policy.Signal{Number: int(n)})
	}
	if j.current != nil {
		j.current.signalLeaders(n, j.cfg.Log)
	}
	return nil
}

// conclude finishes the verdict, whether the job ended or the launcher failed.
func (j *job) conclude(err error) {
	if j.current != nil { // the launcher failed in the middle of an attempt
		j.over(policy.Over{Culprit: -1, Fates: make([]policy.Fate, j.cfg.Ranks)})
	}
	j.verdict.Ended = time.Now()
	if err != nil && j.verdict.Code == 0 {
		j.verdict.Code = exitcode.Of(err)
	}
	j.summarize()
}

// tell shows a notice to the user at once.
func (j *job) tell(n policy.Note) {
	after := seconds(n.After)
	text := ""
	switch n.What {
	case policy.Stopping:
		text = fmt.Sprintf("stopping, up to %s; Ctrl-C again to kill", after)
	case policy.StillTrying:
		text = fmt.Sprintf("still stopping, up to %s more; Ctrl-C again to kill", after)
	case policy.KilledByUser:
		text = "killing all ranks"
	case policy.GraceOver:
		text = fmt.Sprintf("ranks did not end within %s of being asked: killing them", after)
	case policy.Restarting:
		a := j.verdict.Last()
		text = fmt.Sprintf("attempt %d failed (%s)", a.Number, short(a))
		if n.After > 0 {
			text += ", starting again in " + after
		} else {
			text += ", starting again"
		}
	}
	fmt.Fprintf(j.cfg.Console.Writer(logs.Stderr), "ddprun: %s\n", text)
}
