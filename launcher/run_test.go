//go:build linux

package launcher

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/launcher/policy"
)

const topology = `echo "$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE at $MASTER_ADDR group $GROUP_RANK/$GROUP_WORLD_SIZE omp $OMP_NUM_THREADS id $TORCHELASTIC_RUN_ID"`

func TestRanksLearnTheirPlace(t *testing.T) {
	b := newBench(t, 3, topology+"; echo err $RANK >&2")
	b.cfg.RunID = "topo"
	b.cfg.Environ = []string{"PATH=" + os.Getenv("PATH"), "RANK=5", "WORLD_SIZE=64", "LOCAL_RANK=3"}
	v := b.run()
	if v.Code != 0 || v.Result.Kind != policy.Succeeded || reportOf(&v) != "" {
		t.Errorf("verdict %+v, report %q", v.Result, reportOf(&v))
	}
	lines := strings.Split(strings.TrimSpace(b.stdout()), "\n")
	slices.Sort(lines)
	for r := range 3 {
		want := fmt.Sprintf("[rank %d] %d/3 local %d/3 at 127.0.0.1 group 0/1 omp 1 id topo", r, r, r)
		if len(lines) != 3 || lines[r] != want {
			t.Fatalf("got %q, want %q", lines, want)
		}
		file := read(t, v.RunDir, "attempt-0", fmt.Sprintf("rank-%d", r), "stdout.log")
		if "[rank "+fmt.Sprint(r)+"] "+strings.TrimSpace(file) != want {
			t.Errorf("file has %q", file)
		}
		if got := read(t, v.RunDir, "attempt-0", fmt.Sprintf("rank-%d", r), "stderr.log"); got != fmt.Sprintf("err %d\n", r) {
			t.Errorf("stderr.log has %q", got)
		}
	}
}

func TestOneRankHasNoPrefix(t *testing.T) {
	b := newBench(t, 1, `printf 'as it is'`)
	b.run()
	if got := b.stdout(); got != "as it is" {
		t.Errorf("got %q", got)
	}
}

func TestArgumentsArriveUnchanged(t *testing.T) {
	b := newBench(t, 2, "")
	b.cfg.Command.Args = []string{"sh", "-c", `printf '<%s>' "$@"; echo; printf '<%s>' "$V"`, "--", "", "a b", "--", "$$HOME", "dev-${local_rank}", "*"}
	b.cfg.Command.Env = map[string]string{"V": "v${local_rank}"}
	v := b.run()
	for r := range 2 {
		want := fmt.Sprintf("<><a b><--><$$HOME><dev-%d><*>\n<v%d>", r, r)
		if got := read(t, v.RunDir, "attempt-0", fmt.Sprintf("rank-%d", r), "stdout.log"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The kernel kills one rank; the others are stopped and not blamed.
func TestKilledRankIsTheHeadline(t *testing.T) {
	b := newBench(t, 4, `trap 'exit 143' TERM
[ "$RANK" = 1 ] && { echo "rank 1 wants memory" >&2; sleep 0.2; kill -9 $$; }
while :; do sleep 0.05; done`)
	v := b.run()
	report := reportOf(&v)
	if v.Code != 137 || v.Culprit() == nil || v.Culprit().Rank != 1 {
		t.Errorf("code %d, culprit %+v", v.Code, v.Culprit())
	}
	first, _, _ := strings.Cut(report, "\n")
	if want := fmt.Sprintf("ddprun: rank 1 (pid %d, host %s) killed by signal 9 (maybe out of memory)", v.Culprit().PID, v.Host); first != want {
		t.Errorf("headline %q, want %q", first, want)
	}
	wantText(t, report, "rank 1 wants memory", "ranks 0, 2, 3 stopped by the launcher",
		"log: "+filepath.Join(v.RunDir, "attempt-0", "rank-1", "stderr.log"))
}

func TestFirstFailureGivesTheCode(t *testing.T) {
	b := newBench(t, 3, `[ $RANK = 2 ] && { sleep 0.2; echo boom >&2; exit 3; }; trap 'exit 1' TERM; while :; do sleep 0.05; done`)
	v := b.run()
	if v.Code != 3 {
		t.Errorf("code %d", v.Code)
	}
	wantText(t, reportOf(&v), "ddprun: rank 2 (pid ", "failed: exit code 3\n", "    boom\n", "ranks 0, 1 stopped by the launcher")
}

func TestStdoutStandsInForAnEmptyStderr(t *testing.T) {
	b := newBench(t, 1, `echo only here; exit 4`)
	v := b.run()
	wantText(t, reportOf(&v), "last lines of its stdout", "only here", "stdout.log")
}

func TestRankThatEndsEarlyIsFine(t *testing.T) {
	b := newBench(t, 2, `[ $RANK = 0 ] || sleep 0.3`)
	if v := b.run(); v.Code != 0 {
		t.Errorf("code %d", v.Code)
	}
}

func TestReportsOfRanks(t *testing.T) {
	for _, c := range []struct {
		name, json string
		worker     bool
		want       string
	}{
		{"torch", `{"message":{"message":"ValueError: bad","extraInfo":{"py_callstack":"tb","timestamp":"1700000000"}}}`, false, "failed: exit code 65: ValueError: bad\n"},
		{"worker", `{"message":{"message":"digits.csv: line 3: label 11\ntry 0 to 9","extraInfo":{"timestamp":"1700000000"}}}`, true, "ddprun: digits.csv: line 3: label 11\n  try 0 to 9\n  rank 0 (pid "},
		{"corrupt", `{"message":`, false, "failed: exit code 65\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 1, `printf '%s' "$JSON" > "$TORCHELASTIC_ERROR_FILE"; exit 65`)
			b.cfg.Command.Env = map[string]string{"JSON": c.json}
			b.cfg.Worker = c.worker
			v := b.run()
			if v.Code != 65 {
				t.Errorf("code %d", v.Code)
			}
			wantText(t, reportOf(&v), c.want)
		})
	}
}

// A worker of ours says itself that it only lost a peer; it is not blamed even
// if it is seen first.
func TestVictimIsNotBlamed(t *testing.T) {
	b := newBench(t, 2, `if [ $RANK = 0 ]; then
printf '{"message":"peer lost: rank 1","ddprun_victim":true}' > "$TORCHELASTIC_ERROR_FILE"; exit 1
fi; sleep 0.3; exit 7`)
	b.cfg.Worker = true
	v := b.run()
	if v.Code != 7 || v.Culprit().Rank != 1 {
		t.Errorf("code %d", v.Code)
	}
	wantText(t, reportOf(&v), "rank 0 ended because a peer was lost")
}

func TestCommandThatIsNotThere(t *testing.T) {
	b := newBench(t, 2, "")
	b.cfg.Command.Args = []string{"./not-there"}
	b.cfg.MaxRestarts = 3
	v := b.run()
	if v.Code != 127 || len(v.Attempts) != 1 {
		t.Errorf("code %d after %d attempts", v.Code, len(v.Attempts))
	}
	wantText(t, reportOf(&v), "ddprun: rank 0", "could not be started: ./not-there: no such file", "rank 1 not started", "not started again")
}

func TestRestartBudgetIsTheJobs(t *testing.T) {
	script := `cd "$DIR"; n=$(cat n.$RANK 2>/dev/null || echo 0); echo $((n+1)) > n.$RANK
echo "attempt $DDPRUN_ATTEMPT restart $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS port $MASTER_PORT store $DDPRUN_STORE token $DDPRUN_TOKEN"
[ "$RANK" = 0 ] && { sleep 0.1; [ $n -lt 2 ] && exit 7; exit 0; }; sleep 0.3`
	for _, c := range []struct{ budget, code, runs int }{{2, 0, 3}, {1, 7, 2}, {0, 7, 1}} {
		b := newBench(t, 2, script)
		dir := t.TempDir()
		b.cfg.MaxRestarts = c.budget
		b.cfg.Command.Env = map[string]string{"DIR": dir}
		v := b.run()
		if v.Code != c.code || len(v.Attempts) != c.runs || v.Result.Restarts != c.runs-1 {
			t.Errorf("budget %d: code %d, %d attempts, %d restarts", c.budget, v.Code, len(v.Attempts), v.Result.Restarts)
		}
		for r := range 2 {
			if n := strings.TrimSpace(read(t, dir, fmt.Sprintf("n.%d", r))); n != fmt.Sprint(c.runs) {
				t.Errorf("budget %d: rank %d ran %s times", c.budget, r, n)
			}
		}
		seen := map[string]bool{}
		for a := range c.runs {
			line := read(t, v.RunDir, fmt.Sprintf("attempt-%d", a), "rank-0", "stdout.log")
			if line != read(t, v.RunDir, fmt.Sprintf("attempt-%d", a), "rank-1", "stdout.log") {
				t.Errorf("ranks of attempt %d disagree", a)
			}
			wantText(t, line, fmt.Sprintf("attempt %d restart %d of %d ", a, a, c.budget))
			for _, word := range strings.Fields(line)[6:] { // port, store and token with their values
				if strings.ContainsAny(word, "0123456789") && seen[word] {
					t.Errorf("attempt %d meets %s again", a, word)
				}
				seen[word] = true
			}
		}
	}
}

func TestUsageErrorsAreNotRetried(t *testing.T) {
	b := newBench(t, 1, "exit 2")
	b.cfg.MaxRestarts = 3
	if v := b.run(); v.Code != 2 || len(v.Attempts) != 1 {
		t.Errorf("code %d after %d attempts", v.Code, len(v.Attempts))
	}
}

func TestTermLetsRanksSave(t *testing.T) {
	b := newBench(t, 2, `trap 'echo saving; sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	b.cfg.MaxRestarts = 2
	done := b.start()
	b.waitFor("ready", 2)
	send(b, syscall.SIGTERM)
	b.waitFor("saving", 2)
	send(b, syscall.SIGTERM) // neither kills nor moves the clock
	v := <-done
	if v.Code != 143 || len(v.Attempts) != 1 || strings.Count(b.stdout(), "saved") != 2 {
		t.Errorf("code %d, stdout %q", v.Code, b.stdout())
	}
	wantText(t, reportOf(&v), "ddprun: stopped by signal 15 (SIGTERM)\n")
}

func TestTermWithTooShortAGrace(t *testing.T) {
	b := newBench(t, 2, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	b.cfg.Grace = 300 * time.Millisecond
	done := b.start()
	b.waitFor("ready", 2)
	send(b, syscall.SIGTERM)
	v := <-done
	if v.Code != 143 {
		t.Errorf("code %d", v.Code)
	}
	wantText(t, reportOf(&v), "ranks 0, 1 killed after 0.3 s: the grace was too short", "--shutdown-timeout")
	wantText(t, b.stderr(), "did not end within 0.3 s")
}

func TestSecondCtrlCKills(t *testing.T) {
	b := newBench(t, 2, `trap '' INT TERM; echo ready; while :; do sleep 0.05; done`)
	b.cfg.Grace = time.Hour
	done := b.start()
	b.waitFor("ready", 2)
	send(b, syscall.SIGINT)
	b.waitFor("again to kill", 1)
	time.Sleep(300 * time.Millisecond) // a key press later
	send(b, syscall.SIGINT)
	if v := <-done; v.Code != 130 {
		t.Errorf("code %d", v.Code)
	}
}

func TestWarningSignalIsPassedToTheRankAlone(t *testing.T) {
	b := newBench(t, 2, `trap 'echo warned; exit 0' USR1; sleep 300 & child=$!; echo ready; wait $child; kill -0 $child && echo child lives; exit 0`)
	done := b.start()
	b.waitFor("ready", 2)
	send(b, syscall.SIGUSR1)
	v := <-done
	if v.Code != 0 || strings.Count(b.stdout(), "warned") != 2 {
		t.Errorf("code %d, stdout %q", v.Code, b.stdout())
	}
	if n := len(v.Last().Swept); n != 2 {
		t.Errorf("%d leftovers swept, want the two children: %v", n, v.Last().Swept)
	}
}

// The leader dies of the stop signal at once, its child saves: the grace is
// the group's.
func TestGraceIsTheGroups(t *testing.T) {
	b := newBench(t, 1, `sh -c 'trap "sleep 0.5; echo child saved; exit 0" TERM; echo ready; while :; do sleep 0.02; done'; :`)
	done := b.start()
	b.waitFor("ready", 1)
	send(b, syscall.SIGTERM)
	<-done
	wantText(t, b.stdout(), "child saved")
}

func TestNothingIsLeftBehind(t *testing.T) {
	mark := fmt.Sprintf("DDPRUN_TEST_%d", time.Now().UnixNano())
	b := newBench(t, 2, `setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' & sleep 300 & exit 0`)
	b.cfg.Command.Env = map[string]string{mark: "1"}
	b.cfg.Grace = 200 * time.Millisecond
	v := b.run()
	if left := testkit.Carriers(mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if v.Code != 0 || len(v.Last().Swept) < 4 {
		t.Errorf("code %d, swept %v", v.Code, v.Last().Swept)
	}
}

func TestSummary(t *testing.T) {
	b := newBench(t, 2, `[ $RANK = 1 ] && { echo why >&2; exit 9; }; while :; do sleep 0.05; done`)
	b.cfg.Files = map[string][]byte{"job.yaml": []byte("name: x\n")}
	v := b.run()
	var s summary
	if err := json.Unmarshal([]byte(read(t, v.RunDir, "summary.json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Verdict != "rank-failed" || s.ExitCode != 9 || s.RootCause == nil || s.RootCause.Rank != 1 || s.RootCause.Tail[0] != "why" ||
		len(s.Attempts) != 1 || s.Attempts[0].Ranks[0].Fate != "stopped" || s.Attempts[0].Ranks[0].Signal != "SIGTERM" ||
		s.RootCause.Log != "attempt-0/rank-1" || s.Ended == "" {
		t.Errorf("summary %+v", s)
	}
	if read(t, v.RunDir, "job.yaml") != "name: x\n" {
		t.Error("job.yaml differs")
	}
	err := filepath.Walk(v.RunDir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRunIDIsContinuedWithANewAttempt(t *testing.T) {
	b := newBench(t, 1, "echo $DDPRUN_ATTEMPT")
	b.cfg.RunID = "again"
	b.run()
	next := newBench(t, 1, "echo $DDPRUN_ATTEMPT $TORCHELASTIC_RESTART_COUNT")
	next.cfg.RunID, next.cfg.LogDir = "again", b.cfg.LogDir
	next.run()
	if b.stdout() != "0\n" || next.stdout() != "1 0\n" {
		t.Errorf("attempts %q, then %q", b.stdout(), next.stdout())
	}
	if got := read(t, b.cfg.LogDir, "again", "attempt-0", "rank-0", "stdout.log"); got != "0\n" {
		t.Errorf("the first attempt's log now has %q", got)
	}
}

func TestRunIDInUseIsRefused(t *testing.T) {
	b := newBench(t, 1, "echo ready; while :; do sleep 0.05; done")
	b.cfg.RunID = "busy"
	done := b.start()
	b.waitFor("ready", 1)
	other := newBench(t, 1, "true")
	other.cfg.RunID, other.cfg.LogDir = "busy", b.cfg.LogDir
	if _, err := other.try(); exitcode.Of(err) != exitcode.Machine || !strings.Contains(err.Error(), "another launcher") {
		t.Errorf("err %v", err)
	}
	send(b, syscall.SIGTERM)
	<-done
}

func TestUnusableLogFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 1, "true")
	b.cfg.LogDir = filepath.Join(file, "runs")
	_, err := b.try()
	if exitcode.Of(err) != exitcode.Machine || !strings.Contains(err.Error(), b.cfg.LogDir) {
		t.Errorf("err %v", err)
	}
}

func TestLinkThatLeadsOutIsRefused(t *testing.T) {
	b := newBench(t, 1, "true")
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(b.cfg.LogDir, "linked")); err != nil {
		t.Fatal(err)
	}
	b.cfg.RunID = "linked"
	if _, err := b.try(); exitcode.Of(err) != exitcode.Machine {
		t.Errorf("err %v", err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("written outside: %v", entries)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{Ranks: 0, Command: Command{Args: []string{"true"}}},
		{Ranks: MaxRanks + 1, Command: Command{Args: []string{"true"}}},
		{Ranks: 1},
		{Ranks: 1, Command: Command{Args: []string{"true"}}, RunID: "../x"},
	} {
		if _, err := Run(t.Context(), c); exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
