package launcher

import (
	"encoding/json"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const summaryName = "summary.json"

// summary is summary.json. Names are part of what users touch.
type summary struct {
	Verdict     string           `json:"verdict"` // running | succeeded | rank-failed | interrupted | immortal | launcher-failed
	ExitCode    int              `json:"exit_code"`
	RootCause   *summaryCause    `json:"root_cause"`
	StopSignal  string           `json:"stop_signal,omitempty"`
	RunID       string           `json:"run_id"`
	Host        string           `json:"host"`
	Started     string           `json:"started"`
	Ended       string           `json:"ended,omitempty"`
	Seconds     float64          `json:"seconds,omitempty"`
	Restarts    int              `json:"restarts"`
	MaxRestarts int              `json:"max_restarts"`
	Attempts    []summaryAttempt `json:"attempts"` // of the latest launcher of this run
	Lost        []summaryLoss    `json:"lost_output,omitempty"`
}

type summaryCause struct {
	Attempt  int      `json:"attempt"`
	Rank     int      `json:"rank"`
	PID      int      `json:"pid,omitempty"`
	Host     string   `json:"host"`
	ExitCode int      `json:"exit_code"` // as a shell shows it
	Signal   string   `json:"signal,omitempty"`
	Message  string   `json:"message,omitempty"`
	Stack    string   `json:"stack,omitempty"`
	Tail     []string `json:"last_lines,omitempty"`
	Log      string   `json:"log,omitempty"` // relative to the run directory
}

type summaryAttempt struct {
	Number     int           `json:"attempt"`
	Started    string        `json:"started"`
	Ended      string        `json:"ended"`
	Ranks      []summaryRank `json:"ranks"`
	LeftBehind int           `json:"left_behind,omitempty"` // processes
}

type summaryRank struct {
	Rank      int     `json:"rank"`
	LocalRank int     `json:"local_rank"`
	PID       int     `json:"pid,omitempty"`
	Fate      string  `json:"fate"`      // completed | culprit | failed | victim | stopped | absent
	ExitCode  int     `json:"exit_code"` // as a shell shows it
	Signal    string  `json:"signal,omitempty"`
	Message   string  `json:"message,omitempty"`
	Started   string  `json:"started,omitempty"`
	Ended     string  `json:"ended,omitempty"`
	CPU       float64 `json:"cpu_seconds"`
	MaxRSS    int64   `json:"max_rss_bytes"`
}

type summaryLoss struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

// summarize writes summary.json as far as things are known. A full disk must
// not change how the job ends.
func (j *job) summarize() {
	data, err := json.MarshalIndent(j.verdict.summary(), "", "  ")
	if err == nil {
		err = j.dir.replace(summaryName, append(data, '\n'))
	}
	if err != nil && !j.warned {
		j.warned = true
		j.cfg.Log.Warn("cannot write the summary", zap.Error(err))
	}
}

func (v *Verdict) summary() summary {
	s := summary{
		Verdict: v.Result.Kind.String(), ExitCode: v.Code, RootCause: v.cause(),
		RunID: v.RunID, Host: v.Host, Started: stamp(v.Started), Ended: stamp(v.Ended),
		Restarts: v.Result.Restarts, MaxRestarts: v.MaxRestarts,
	}
	switch {
	case s.Verdict == "" && v.Ended.IsZero():
		s.Verdict = "running"
	case s.Verdict == "":
		s.Verdict = "launcher-failed"
	}
	if v.Result.Signal != 0 {
		s.StopSignal = unix.SignalName(unix.Signal(v.Result.Signal))
	}
	if !v.Ended.IsZero() {
		s.Seconds = v.Ended.Sub(v.Started).Seconds()
	}
	for _, a := range v.Attempts {
		s.Attempts = append(s.Attempts, a.summary())
	}
	for _, l := range v.Lost {
		s.Lost = append(s.Lost, summaryLoss{l.Name, l.Bytes, l.Err.Error()})
	}
	return s
}

func (v *Verdict) cause() *summaryCause {
	r := v.Culprit()
	if r == nil {
		return nil
	}
	c := &summaryCause{
		Attempt: v.Last().Number, Rank: r.Rank, PID: r.PID, Host: v.Host,
		ExitCode: r.status().ExitCode(), Signal: unix.SignalName(r.Signal),
		Message: v.message(r), Stack: r.Stack, Tail: r.Tail,
	}
	if rel, err := filepath.Rel(v.RunDir, r.LogDir); err == nil && r.LogDir != "" {
		c.Log = rel
	}
	return c
}

func (a *Attempt) summary() summaryAttempt {
	s := summaryAttempt{Number: a.Number, Started: stamp(a.Started), Ended: stamp(a.Ended), LeftBehind: len(a.Swept)}
	for i := range a.Ranks {
		r := &a.Ranks[i]
		s.Ranks = append(s.Ranks, summaryRank{
			Rank: r.Rank, LocalRank: r.LocalRank, PID: r.PID, Fate: r.Fate.String(),
			ExitCode: r.status().ExitCode(), Signal: unix.SignalName(r.Signal), Message: r.Message,
			Started: stamp(r.Started), Ended: stamp(r.Ended), CPU: r.CPU.Seconds(), MaxRSS: r.MaxRSS,
		})
	}
	return s
}
