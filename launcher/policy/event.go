package policy

import "time"

// Event is something that happened to the job.
type Event interface{ isEvent() }

// Events.
type (
	// Exited: a rank's process ended.
	Exited struct {
		Rank int
		Exit Exit
	}
	// StartFailed: this rank could not be started; lower ranks were, higher
	// ones were not tried.
	StartFailed struct {
		Rank int
		Code int
	}
	// Swept: nothing of the attempt is left but Immortal processes that KILL
	// did not end.
	Swept struct{ Immortal int }
	// Signal: the launcher was asked to stop.
	Signal struct{ Number int }
	// Tick: the time of Deadline has come.
	Tick struct{}
)

// Exit is how a rank ended.
type Exit struct {
	Code   int  // as a shell shows it: 128+n for signal n
	Signal int  // signal that ended it, 0 if it exited
	Victim bool // the rank itself says that it only lost a peer
}

func (Exited) isEvent()      {}
func (StartFailed) isEvent() {}
func (Swept) isEvent()       {}
func (Signal) isEvent()      {}
func (Tick) isEvent()        {}

// Action is something the launcher must do. Times are on the machine's clock.
type Action interface{ isAction() }

// Actions.
type (
	// Launch: start all ranks.
	Launch struct{ Restart int }
	// Stop: send Signal once to every rank's group. They have until Deadline.
	Stop struct {
		Signal   int
		Deadline time.Duration
	}
	// Kill: end everything at once, a sweep in progress included.
	Kill struct{}
	// Sweep: end what descends from ranks: ask first if Ask, KILL at Deadline;
	// then report Swept.
	Sweep struct {
		Ask      bool
		Deadline time.Duration
	}
	// Note: tell the user.
	Note struct {
		What  Notice
		After time.Duration // what the notice is about: grace, delay
	}
	// Over: the attempt has ended and is judged.
	Over struct {
		Culprit int // -1: none
		Fates   []Fate
	}
	// Finish: the job has ended.
	Finish struct{ Result Result }
)

func (Launch) isAction() {}
func (Stop) isAction()   {}
func (Kill) isAction()   {}
func (Sweep) isAction()  {}
func (Note) isAction()   {}
func (Over) isAction()   {}
func (Finish) isAction() {}

// Notice is a message to the user while the job runs.
type Notice int

// Notices.
const (
	Stopping     Notice = iota + 1 // asked to stop, ranks have After
	StillTrying                    // asked again, the clock goes on
	GraceOver                      // ranks did not end within After
	KilledByUser                   // asked twice
	Restarting                     // a new attempt begins in After
)

func (n Notice) String() string {
	return [...]string{"", "stopping", "still-stopping", "grace-over", "killed-by-user", "restarting"}[n]
}

// Fate is what became of a rank in an attempt.
type Fate int

// Fates.
const (
	Running   Fate = iota
	Completed      // exit code 0
	Culprit        // the failure that ended the attempt
	Failed         // failed by itself, after the culprit
	Victim         // lost a peer
	Stopped        // ended because the launcher said so
	Absent         // was not started
)

func (f Fate) String() string {
	return [...]string{"running", "completed", "culprit", "failed", "victim", "stopped", "absent"}[f]
}

// Kind classes the end of a job.
type Kind int

// Kinds of end.
const (
	Succeeded   Kind = iota + 1
	RankFailed       // a rank failed and no restart was due
	Interrupted      // a stop signal ended the job
	Immortal         // processes are left that KILL does not end
)

func (k Kind) String() string {
	return [...]string{"", "succeeded", "rank-failed", "interrupted", "immortal"}[k]
}

// Reason says why a failure was not answered with a restart.
type Reason int

// Reasons.
const (
	NoReason    Reason = iota
	BudgetSpent        // MaxRestarts were used
	NotRetried         // an exit code that a restart cannot cure
)

func (r Reason) String() string {
	return [...]string{"", "budget-spent", "not-retried"}[r]
}

// Result is the end of a job.
type Result struct {
	Kind     Kind
	Culprit  int // rank, -1 if none
	Signal   int // stop signal, 0 if none
	Code     int // exit code of the launcher, but for Immortal
	Restarts int
	Reason   Reason
	Forced   bool // ranks were killed because the grace time was over
}
