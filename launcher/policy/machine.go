package policy

import (
	"slices"
	"syscall"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

const (
	// settle is how long failures are collected before one is blamed: a rank
	// that the kernel kills takes its sockets with it, and its peers may be
	// noticed first.
	settle = 50 * time.Millisecond
	// victimSettle is the same while only victims are known: their culprit has
	// closed its sockets and must be about to end.
	victimSettle = time.Second
	// leftoverGrace is how long what a rank left behind may take to end.
	leftoverGrace = 2 * time.Second
	// killPatience is how long a killed rank may take to be reported.
	killPatience = 10 * time.Second
	// doublePress tells a second Ctrl-C from the same one delivered twice.
	doublePress = 250 * time.Millisecond
	// Pauses before restarts keep a job that dies at once from turning the
	// machine into a fork loop; the budget is what bounds restarts.
	firstDelay = 100 * time.Millisecond
	maxDelay   = time.Second
	// steady is how long an attempt must have run for its failure to be no
	// part of such a loop.
	steady = 10 * time.Second
)

// Settings of a job.
type Settings struct {
	Ranks       int
	MaxRestarts int           // of the whole job
	Grace       time.Duration // between the stop signal and KILL
	NoRetry     []int         // exit codes that a restart cannot cure
}

type state int

const (
	running state = iota
	settling
	stopping
	sweeping
	delaying
	finished
)

// Machine is the life of one job. It is not safe for concurrent use.
type Machine struct {
	set      Settings
	state    state
	deadline time.Duration // of the state, valid if timed
	timed    bool
	restarts int
	quick    int           // attempts in a row that were not steady
	launched time.Duration // when the attempt began

	fates    []Fate
	exits    []Exit
	failures []int // ranks that failed before the stop, in order
	live     int
	culprit  int // -1: none
	code     int // the culprit's

	stop      int           // stop signal that ended the attempt, 0: none
	asked     bool          // a stop signal came
	askedAt   time.Duration // when first
	killed    bool
	forced    bool
	graceEnds time.Duration
}

// New makes the machine and its first action.
func New(set Settings) (*Machine, []Action) {
	m := &Machine{set: set}
	return m, m.launch(0)
}

// Deadline is when the machine wants a Tick; false if it does not.
func (m *Machine) Deadline() (time.Duration, bool) { return m.deadline, m.timed }

// Step takes an event at a time since the start of the job. Times must not go
// back. Events that have no meaning in the present state are ignored.
func (m *Machine) Step(now time.Duration, ev Event) []Action {
	switch ev := ev.(type) {
	case Exited:
		return m.exited(now, ev)
	case StartFailed:
		return m.startFailed(now, ev)
	case Swept:
		return m.swept(now, ev)
	case Signal:
		return m.signal(now, ev)
	case Tick:
		if m.timed && now >= m.deadline {
			return m.tick(now)
		}
	}
	return nil
}

func (m *Machine) launch(now time.Duration) []Action {
	n := m.set.Ranks
	*m = Machine{
		set: m.set, restarts: m.restarts, quick: m.quick, launched: now,
		fates: make([]Fate, n), exits: make([]Exit, n), live: n, culprit: -1,
	}
	return []Action{Launch{Restart: m.restarts}}
}

func (m *Machine) enter(s state) { m.state, m.timed = s, false }

func (m *Machine) until(s state, deadline time.Duration) {
	m.state, m.timed, m.deadline = s, true, deadline
}

func (m *Machine) exited(now time.Duration, ev Exited) []Action {
	if ev.Rank < 0 || ev.Rank >= len(m.fates) || m.fates[ev.Rank] != Running || m.state >= delaying {
		return nil
	}
	m.live--
	m.exits[ev.Rank] = ev.Exit
	switch {
	case ev.Exit.Code == 0:
		m.fates[ev.Rank] = Completed
	case m.state == stopping || m.state == sweeping:
		m.fates[ev.Rank] = afterStop(ev.Exit)
	default:
		m.failed(now, ev)
	}
	if m.live > 0 || m.state == sweeping {
		return nil
	}
	if m.state == stopping {
		return m.sweep(false, m.graceEnds)
	}
	if m.state == settling {
		m.blame()
	}
	return m.sweep(true, now+min(leftoverGrace, m.set.Grace))
}

// failed notes a failure that nobody asked for.
func (m *Machine) failed(now time.Duration, ev Exited) {
	m.failures = append(m.failures, ev.Rank)
	m.fates[ev.Rank] = Failed
	if ev.Exit.Victim {
		m.fates[ev.Rank] = Victim
	}
	wait := now + settle
	if ev.Exit.Victim {
		wait = now + victimSettle
	}
	if m.state == settling {
		wait = min(wait, m.deadline)
	}
	m.until(settling, wait)
}

// afterStop: a rank that ends once the launcher has sent a signal ends because
// of it, whatever its code, unless it says itself that it is a victim.
func afterStop(e Exit) Fate {
	if e.Victim {
		return Victim
	}
	return Stopped
}

// blame chooses the culprit: a rank that something from outside killed, else
// the first that failed by itself, else the first victim.
func (m *Machine) blame() {
	best := m.failures[0]
	for _, r := range m.failures[1:] {
		if m.weight(r) < m.weight(best) {
			best = r
		}
	}
	m.culprit, m.code = best, m.exits[best].Code
	m.fates[best] = Culprit
}

func (m *Machine) weight(rank int) int {
	e := m.exits[rank]
	switch syscall.Signal(e.Signal) {
	case syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGSYS:
		return 0
	}
	if e.Victim {
		return 2
	}
	return 1
}

func (m *Machine) startFailed(now time.Duration, ev StartFailed) []Action {
	if m.state > settling || ev.Rank < 0 || ev.Rank >= len(m.fates) {
		return nil
	}
	for r := ev.Rank; r < len(m.fates); r++ {
		if m.fates[r] == Running {
			m.fates[r] = Absent
			m.live--
		}
	}
	m.culprit, m.code = ev.Rank, ev.Code
	m.fates[ev.Rank] = Culprit
	return m.halt(now, int(syscall.SIGTERM))
}

// halt stops the ranks that are still there.
func (m *Machine) halt(now time.Duration, sig int) []Action {
	m.graceEnds = now + m.set.Grace
	if m.live == 0 {
		return m.sweep(true, now+min(leftoverGrace, m.set.Grace))
	}
	m.until(stopping, m.graceEnds)
	return []Action{Stop{Signal: sig, Deadline: m.graceEnds}}
}

func (m *Machine) sweep(ask bool, deadline time.Duration) []Action {
	m.enter(sweeping)
	return []Action{Sweep{Ask: ask, Deadline: deadline}}
}

func (m *Machine) signal(now time.Duration, ev Signal) []Action {
	if m.state == finished {
		return nil
	}
	first := !m.asked
	if first {
		m.asked, m.askedAt = true, now
	}
	switch m.state {
	case running:
		m.stop = ev.Number
		return append(m.halt(now, ev.Number), Note{What: Stopping, After: m.set.Grace})
	case settling:
		m.blame()
		m.stop = m.pendingStop(ev.Number)
		return append(m.halt(now, int(syscall.SIGTERM)), Note{What: Stopping, After: m.set.Grace})
	case delaying:
		m.stop = ev.Number
		return m.finish(Interrupted, exitcode.SignalBase+ev.Number, NoReason)
	}
	if first {
		m.stop = m.pendingStop(ev.Number)
		return []Action{Note{What: StillTrying, After: max(0, m.graceEnds-now)}}
	}
	if syscall.Signal(ev.Number) != syscall.SIGINT || m.killed || now-m.askedAt < doublePress {
		return nil
	}
	return append(m.kill(now), Note{What: KilledByUser})
}

// pendingStop: a stop signal that comes while a failed attempt is cleared away
// takes the place of the restart that was due; a failure that would have ended
// the job anyway stays the cause.
func (m *Machine) pendingStop(sig int) int {
	if m.culprit >= 0 && m.noRestart() == NoReason {
		return sig
	}
	return m.stop
}

func (m *Machine) kill(now time.Duration) []Action {
	m.killed = true
	if m.state == stopping {
		m.until(stopping, now+killPatience)
	}
	m.graceEnds = now
	return []Action{Kill{}}
}

func (m *Machine) tick(now time.Duration) []Action {
	switch m.state {
	case settling:
		m.blame()
		return m.halt(now, int(syscall.SIGTERM))
	case stopping:
		if m.killed { // the kernel does not end them: nothing more can be done
			return m.sweep(false, now)
		}
		m.forced = true
		return append(m.kill(now), Note{What: GraceOver, After: m.set.Grace})
	case delaying:
		return m.relaunch(now)
	}
	return nil
}

func (m *Machine) swept(now time.Duration, ev Swept) []Action {
	if m.state != sweeping {
		return nil
	}
	for r, fate := range m.fates {
		if fate == Running { // its end was not reported in time
			m.fates[r] = Stopped
		}
	}
	over := Over{Culprit: m.culprit, Fates: slices.Clone(m.fates)}
	return append([]Action{over}, m.next(now, ev)...)
}

// next decides what follows an attempt.
func (m *Machine) next(now time.Duration, ev Swept) []Action {
	switch {
	case ev.Immortal > 0:
		return m.finish(Immortal, exitcode.Machine, NoReason)
	case m.stop != 0:
		return m.finish(Interrupted, exitcode.SignalBase+m.stop, NoReason)
	case m.culprit < 0:
		return m.finish(Succeeded, exitcode.OK, NoReason)
	}
	reason := m.noRestart()
	if reason != NoReason {
		return m.finish(RankFailed, m.code, reason)
	}
	m.quick++
	if now-m.launched >= steady {
		m.quick = 0
	}
	delay := delayAfter(m.quick)
	note := Note{What: Restarting, After: delay}
	if delay == 0 {
		return append([]Action{note}, m.relaunch(now)...)
	}
	m.until(delaying, now+delay)
	return []Action{note}
}

func (m *Machine) relaunch(now time.Duration) []Action {
	m.restarts++
	return m.launch(now)
}

func (m *Machine) noRestart() Reason {
	switch {
	case slices.Contains(m.set.NoRetry, m.code):
		return NotRetried
	case m.restarts >= m.set.MaxRestarts:
		return BudgetSpent
	}
	return NoReason
}

// delayAfter is the pause after n quick failures in a row: none after one,
// which may be chance, then firstDelay, doubled each time up to maxDelay.
func delayAfter(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return min(maxDelay, firstDelay<<min(n-2, 10))
}

func (m *Machine) finish(kind Kind, code int, reason Reason) []Action {
	m.enter(finished)
	return []Action{Finish{Result{
		Kind: kind, Culprit: m.culprit, Signal: m.stop, Code: code,
		Restarts: m.restarts, Reason: reason, Forced: m.forced,
	}}}
}
