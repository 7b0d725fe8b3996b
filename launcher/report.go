package launcher

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/policy"
	"github.com/ddprun/ddprun/launcher/proc"
)

// Report writes the verdict for people: one block whose first line is the
// cause. A job that went well has none.
func Report(w io.Writer, v *Verdict) {
	var b strings.Builder
	switch v.Result.Kind {
	case policy.RankFailed:
		b.WriteString("ddprun: " + v.headline() + "\n")
	case policy.Interrupted:
		fmt.Fprintf(&b, "ddprun: stopped by signal %d (%s)\n", v.Result.Signal, unix.SignalName(syscall.Signal(v.Result.Signal)))
	case policy.Immortal:
		reportImmortal(&b, v)
	default:
		return
	}
	if v.Result.Kind != policy.Interrupted {
		v.details(&b)
	}
	v.others(&b)
	v.budget(&b)
	_, _ = io.WriteString(w, b.String())
}

// headline is the cause in one line.
func (v *Verdict) headline() string {
	r := v.Culprit()
	if r == nil {
		return "failed"
	}
	message, _, _ := strings.Cut(v.message(r), "\n")
	switch {
	case r.PID == 0:
		return fmt.Sprintf("rank %d (host %s) could not be started: %s", r.Rank, v.Host, message)
	case v.Worker && message != "":
		return message
	case message != "":
		return fmt.Sprintf("%s: %s", v.failure(r), message)
	}
	return v.failure(r)
}

// failure says which process failed and how.
func (v *Verdict) failure(r *Rank) string {
	who := fmt.Sprintf("rank %d (pid %d, host %s)", r.Rank, r.PID, v.Host)
	if r.Signal == 0 {
		return fmt.Sprintf("%s failed: exit code %d", who, r.Code)
	}
	hint := ""
	if r.Signal == syscall.SIGKILL {
		hint = " (maybe out of memory)"
	}
	if r.Core {
		hint += ", core dumped"
	}
	return fmt.Sprintf("%s killed by signal %d%s", who, int(r.Signal), hintOr(hint, r.Signal))
}

func hintOr(hint string, sig syscall.Signal) string {
	if hint != "" {
		return hint
	}
	return " (" + unix.SignalName(sig) + ")"
}

// message is why a rank failed in its own words. A trainer of ours that could
// not write its error file has said it on its last line.
func (v *Verdict) message(r *Rank) string {
	if r.Message != "" || !v.Worker || r.Signal != 0 || r.Code < exitcode.Usage || r.Code >= exitcode.NotExec {
		return r.Message
	}
	for _, line := range slices.Backward(r.Tail) {
		if text, ok := strings.CutPrefix(line, "ddprun: "); ok {
			return text
		}
	}
	return ""
}

// details adds what the culprit left: the rest of its message, its last lines,
// and where the whole log is.
func (v *Verdict) details(b *strings.Builder) {
	r := v.Culprit()
	if r == nil {
		return
	}
	message := v.message(r)
	if _, rest, more := strings.Cut(message, "\n"); more {
		for line := range strings.Lines(strings.TrimRight(rest, "\n")) {
			fmt.Fprintf(b, "  %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if v.Worker && message != "" && r.PID != 0 {
		fmt.Fprintf(b, "  %s\n", v.failure(r))
	}
	tail := r.Tail
	if v.Worker && message != "" {
		tail = nil // the message says it
	} else if r.Stack != "" && len(tail) == 0 {
		tail = strings.Split(strings.TrimRight(r.Stack, "\n"), "\n")
	}
	if len(tail) > 0 {
		name := r.TailOf
		if name == "" {
			name = "call stack"
		}
		fmt.Fprintf(b, "  last lines of its %s:\n", name)
		for _, line := range tail {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	if r.LogDir != "" && r.PID != 0 {
		file := "stderr.log"
		if r.TailOf == "stdout" {
			file = "stdout.log"
		}
		fmt.Fprintf(b, "  log: %s\n", filepath.Join(r.LogDir, file))
	}
}

// others folds the ranks beside the culprit by their fate.
func (v *Verdict) others(b *strings.Builder) {
	a := v.Last()
	if a == nil {
		return
	}
	fold := func(text string, match func(*Rank) bool) {
		var ranks []int
		for i := range a.Ranks {
			if i != a.Culprit && match(&a.Ranks[i]) {
				ranks = append(ranks, a.Ranks[i].Rank)
			}
		}
		if len(ranks) > 0 {
			fmt.Fprintf(b, "  %s %s\n", rankList(ranks), text)
		}
	}
	forced := v.Result.Forced
	killed := func(r *Rank) bool { return forced && r.Fate == policy.Stopped && r.Signal == syscall.SIGKILL }
	fate := func(f policy.Fate) func(*Rank) bool {
		return func(r *Rank) bool { return r.Fate == f && !killed(r) }
	}
	fold("stopped by the launcher", fate(policy.Stopped))
	fold(fmt.Sprintf("killed after %s: the grace was too short for them, --shutdown-timeout lengthens it", seconds(v.Grace)), killed)
	fold("ended because a peer was lost", fate(policy.Victim))
	fold("failed after it", fate(policy.Failed))
	fold("ended with exit code 0", fate(policy.Completed))
	fold("not started", fate(policy.Absent))
	if n := len(a.Swept); n > 0 {
		fmt.Fprintf(b, "  %s left behind by ranks ended (first: %s, pid %d)\n", plural(n, "process", "processes"), a.Swept[0].Name, a.Swept[0].PID)
	}
}

// budget says why there is no further attempt.
func (v *Verdict) budget(b *strings.Builder) {
	switch {
	case v.Result.Kind == policy.RankFailed && v.Result.Reason == policy.NotRetried && v.MaxRestarts > 0:
		fmt.Fprintf(b, "  not started again: a restart cannot cure exit code %d\n", v.Code)
	case v.Result.Restarts > 0:
		fmt.Fprintf(b, "  after %s of %d\n", plural(v.Result.Restarts, "restart", "restarts"), v.MaxRestarts)
	}
}

func reportImmortal(b *strings.Builder, v *Verdict) {
	l := v.Immortal[0]
	fmt.Fprintf(b, "ddprun: pid %d (%s, host %s) does not die: %s; this machine needs attention\n", l.PID, l.Name, v.Host, proc.Stuck(l.PID))
	if n := len(v.Immortal) - 1; n > 0 {
		fmt.Fprintf(b, "  and %d more\n", n)
	}
	if r := v.Culprit(); r != nil {
		fmt.Fprintf(b, "  before that, %s\n", v.headline())
	}
}

// short is the cause of a failed attempt in a few words.
func short(a *Attempt) string {
	if a.Culprit < 0 {
		return "stopped"
	}
	r := &a.Ranks[a.Culprit]
	return fmt.Sprintf("rank %d: %s", r.Rank, r.status())
}

// rankList names ranks: "rank 3", "ranks 0, 1, 3", "ranks 0-6, 9".
func rankList(ranks []int) string {
	slices.Sort(ranks)
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, fmt.Sprint(ranks[i]))
		case 1:
			parts = append(parts, fmt.Sprint(ranks[i]), fmt.Sprint(ranks[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	if len(ranks) == 1 {
		return "rank " + parts[0]
	}
	return "ranks " + strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds writes a duration as people say it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

// WarnLost logs output that could not be written, in one line.
func WarnLost(log *zap.Logger, lost []logs.Loss) {
	if len(lost) == 0 {
		return
	}
	var bytes int64
	for _, l := range lost {
		bytes += l.Bytes
	}
	more := ""
	if len(lost) > 1 {
		more = fmt.Sprintf(" and %d more", len(lost)-1)
	}
	log.Warn(fmt.Sprintf("cannot write %s%s: %v; %d bytes lost so far, the ranks go on", lost[0].Name, more, lost[0].Err, bytes))
}

// stamp is a time as summary.json has it.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
