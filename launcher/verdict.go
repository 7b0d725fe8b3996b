package launcher

import (
	"syscall"
	"time"

	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/policy"
	"github.com/ddprun/ddprun/launcher/proc"
)

// Verdict is what became of a job on this node.
type Verdict struct {
	Code        int // exit code of the launcher
	Result      policy.Result
	RunID       string
	RunDir      string // absolute
	Host        string
	Started     time.Time
	Ended       time.Time
	Grace       time.Duration
	MaxRestarts int
	Worker      bool      // the ranks ran this project's trainer
	Attempts    []Attempt // of this launcher, in order
	Lost        []logs.Loss
	Immortal    []proc.Leftover
}

// Attempt is one start of all ranks.
type Attempt struct {
	Number  int
	Started time.Time
	Ended   time.Time
	Culprit int // index in Ranks, -1 if none
	Ranks   []Rank
	Swept   []proc.Leftover // processes that ranks left behind
}

// Rank is what became of one rank in an attempt.
type Rank struct {
	Rank      int
	LocalRank int
	PID       int // 0: not started
	Fate      policy.Fate
	Code      int            // exit code; 126 or 127 if it could not be started
	Signal    syscall.Signal // signal that ended it, 0 if none
	Core      bool
	Started   time.Time
	Ended     time.Time
	CPU       time.Duration
	MaxRSS    int64    // bytes
	Message   string   // why it failed in its own words, or why it was not started
	Stack     string   // of its own language, if it gave one
	Tail      []string // last lines of stderr; of stdout if there are none
	TailOf    string   // "stderr" or "stdout"
	LogDir    string   // absolute
}

// Last is the latest attempt, nil if none was begun.
func (v *Verdict) Last() *Attempt {
	if len(v.Attempts) == 0 {
		return nil
	}
	return &v.Attempts[len(v.Attempts)-1]
}

// Culprit is the rank that ended the latest attempt, nil if none did.
func (v *Verdict) Culprit() *Rank {
	a := v.Last()
	if a == nil || a.Culprit < 0 {
		return nil
	}
	return &a.Ranks[a.Culprit]
}

func (r *Rank) status() proc.Status {
	return proc.Status{Code: r.Code, Signal: r.Signal, Core: r.Core}
}
