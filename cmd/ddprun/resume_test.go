package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/worker/checkpoint"
	"github.com/ddprun/ddprun/worker/metrics"
)

// kills is how often the tests of kills kill, in all: DDPRUN_TEST_KILLS, or few.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DDPRUN_TEST_KILLS")
	if text == "" {
		return 12
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("DDPRUN_TEST_KILLS: %v", err)
	}
	return n
}

// killable are the jobs that are killed: with momentum, with running means,
// dropout and Adam, and with tokens and accumulation.
var killable = []string{"mlp", "cnn", "gpt"}

// undisturbed is how a job ends that nobody kills, and how long it takes.
func undisturbed(t *testing.T, job string) (trained, time.Duration) {
	t.Helper()
	testkit.Binary(t) // building it is not part of the time
	began := time.Now()
	run := train(t, jobFile(job), sets("checkpoint.every_steps=2")...)
	return run, time.Since(began)
}

// startKillable starts a job that is going to be killed.
func startKillable(t *testing.T, job, logs string, flags ...string) *testkit.Process {
	t.Helper()
	args := append([]string{testkit.Binary(t), "--log-dir", logs, "--rdzv-id", "run", jobFile(job)}, sets("checkpoint.every_steps=2")...)
	return testkit.Command{Args: append(args, flags...), Timeout: 2 * time.Minute}.Start(t)
}

// The launcher is killed with -9 at random moments, and started again with the
// same run id until the run is done: it ends with the bits of one that was
// never killed.
func TestKilledLauncher(t *testing.T) {
	for _, job := range killable {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			want, took := undisturbed(t, job)
			killed, runs := 0, 0
			for n := kills(t) / (2 * len(killable)); killed < n; runs++ {
				logs := t.TempDir()
				for killed < n && killLauncher(t, startKillable(t, job, logs), rand.N(took)) {
					killed++
				}
				startKillable(t, job, logs).Wait().Want(t, 0) // if it has ended well, this one has nothing to do
				sameEnd(t, want, filepath.Join(logs, "run"))
			}
			t.Logf("%d kills in %d runs", killed, runs)
		})
	}
}

// killLauncher kills p after a while and says whether it came in time.
func killLauncher(t *testing.T, p *testkit.Process, after time.Duration) bool {
	t.Helper()
	time.Sleep(after)
	p.Signal(syscall.SIGKILL)
	r := p.Wait()
	if r.Code != 128+int(syscall.SIGKILL) {
		r.Want(t, 0)
		return false
	}
	return true
}

// One rank is killed with -9 at random moments, and the launcher starts all
// again by itself.
func TestKilledRank(t *testing.T) {
	for _, job := range killable {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			want, took := undisturbed(t, job)
			killed, runs := 0, 0
			for n := kills(t) / (2 * len(killable)); killed < n; runs++ {
				logs := t.TempDir()
				// Few in one run: the launcher waits longer after each.
				some := min(n-killed, 3)
				p := startKillable(t, job, logs, "--max-restarts", fmt.Sprint(some))
				ended, count := make(chan struct{}), make(chan int)
				go func() { count <- killRanks(filepath.Join(logs, "run"), some, took, ended) }()
				r := p.Wait()
				close(ended)
				killed += <-count
				r.Want(t, 0)
				sameEnd(t, want, filepath.Join(logs, "run"))
			}
			t.Logf("%d kills in %d runs", killed, runs)
		})
	}
}

// killRanks kills up to n ranks of a run, one at a time, and tells how many.
func killRanks(runDir string, n int, within time.Duration, ended <-chan struct{}) int {
	killed := 0
	for killed < n {
		select {
		case <-ended:
			return killed
		case <-time.After(rand.N(within)):
		}
		if ranks := ranksOf(runDir); len(ranks) > 0 && syscall.Kill(ranks[rand.N(len(ranks))], syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// ranksOf is the processes of the ranks of a run.
func ranksOf(runDir string) []int {
	var pids []int
	for _, p := range testkit.Carriers("DDPRUN_RUN_DIR") {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if err == nil && strings.Contains(string(environ), "\x00DDPRUN_RUN_DIR="+runDir+"\x00") {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// sameEnd compares a run with an undisturbed one: the last tensors byte by
// byte, every step once, and every loss and evaluation.
func sameEnd(t *testing.T, want trained, runDir string) {
	t.Helper()
	sameFiles(t, newest(t, want.dir), newest(t, runDir))
	got, err := metrics.ReadFile(filepath.Join(runDir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Steps) != len(want.metrics.Steps) || len(got.Evals) != len(want.metrics.Evals) {
		t.Fatalf("%d steps and %d evaluations, want %d and %d", len(got.Steps), len(got.Evals), len(want.metrics.Steps), len(want.metrics.Evals))
	}
	for i, w := range want.metrics.Steps {
		g := got.Steps[i]
		if g.Step != i || g.Epoch != w.Epoch || g.Loss != w.Loss || g.LR != w.LR || g.GradNorm != w.GradNorm {
			t.Errorf("line %d: step %d of epoch %d, loss %v, lr %v; want step %d of epoch %d, loss %v, lr %v", i, g.Step, g.Epoch, g.Loss, g.LR, i, w.Epoch, w.Loss, w.LR)
		}
	}
	for i, w := range want.metrics.Evals {
		if g := got.Evals[i]; g.Step != w.Step || g.Epoch != w.Epoch || g.Loss != w.Loss || g.Correct != w.Correct {
			t.Errorf("evaluation %d: %+v, want %+v", i, g, w)
		}
	}
}

// A run of epochs is stopped after each of its steps and goes on with another
// number of ranks: no sample of an epoch is missed, none comes twice but for
// the padding at its end, and the run ends with its last epoch.
func TestResumeWithOtherRanks(t *testing.T) {
	const samples, epochs = 101, 2 // with 4 ranks of batch 8: 4 steps an epoch
	base := sets("data.train_rows=0:101", "data.eval_rows=1437:1450", "train.batch_size=8", "train.epochs=2", "checkpoint.every_steps=1", "checkpoint.keep=99")
	whole := train(t, jobFile("mlp"), base...)
	for step, ranks := range map[int]int{1: 2, 2: 1, 3: 3, 4: 1, 5: 7, 8: 2} {
		t.Run(fmt.Sprintf("from step %d with %d ranks", step, ranks), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from := filepath.Join(whole.dir, "checkpoints", fmt.Sprintf("step-%08d", step))
			state := readState(t, from)
			trace := filepath.Join(dir, "trace.%RANK%")
			run := train(t, jobFile("mlp"), append(append(base, "--nproc-per-node", fmt.Sprint(ranks)), sets("checkpoint.resume="+from, "debug.trace_samples="+trace)...)...)
			end := readState(t, from)
			if len(run.metrics.Steps) > 0 {
				end = readState(t, newest(t, run.dir))
			}
			if end.Epoch != epochs || end.Consumed != 0 || end.Step != step+len(run.metrics.Steps) {
				t.Errorf("the run ends at %+v after %d more steps", end, len(run.metrics.Steps))
			}
			seen := readTraces(t, trace, ranks)
			for epoch := range epochs {
				wantEpoch(t, seen[epoch], epoch, samples, ranks, state)
			}
		})
	}
}

// wantEpoch checks what a resumed run has seen of an epoch.
func wantEpoch(t *testing.T, seen map[int]int, epoch, samples, ranks int, from checkpoint.State) {
	t.Helper()
	want, twice, total := samples, 0, 0
	switch {
	case epoch < from.Epoch:
		want = 0
	case epoch == from.Epoch:
		want -= from.Consumed
	}
	for _, n := range seen {
		total += n
		twice += n - 1
	}
	padding := (ranks - want%ranks) % ranks
	if total != want+padding || twice > padding {
		t.Errorf("epoch %d: %d samples, of them %d repeated; want %d and %d of padding", epoch, total, twice, want, padding)
	}
}

// Two stops in the middle of an epoch, each with fewer ranks after it.
func TestFourThenTwoThenOne(t *testing.T) {
	const samples = 100
	dir := t.TempDir()
	seen := map[int]int{}
	for _, leg := range []struct{ ranks, steps int }{{4, 2}, {2, 3}, {1, 6}} { // 64 + 16 + 20 samples
		trace := filepath.Join(dir, fmt.Sprintf("%d.%%RANK%%", leg.ranks))
		args := append(sets("data.train_rows=0:100", "train.batch_size=8", "train.steps="+fmt.Sprint(leg.steps), "debug.trace_samples="+trace, "checkpoint.dir="+filepath.Join(dir, "ck")),
			"--nproc-per-node", fmt.Sprint(leg.ranks))
		train(t, jobFile("mlp-steps"), args...)
		for index, n := range readTraces(t, trace, leg.ranks)[0] {
			seen[index] += n
		}
	}
	for i := range samples {
		if seen[i] != 1 {
			t.Errorf("sample %d came %d times in the epoch", i, seen[i])
		}
	}
	if end := readState(t, filepath.Join(dir, "ck", "step-00000006")); end.Epoch != 1 || end.Consumed != 0 {
		t.Errorf("the run ends at %+v", end)
	}
}

// What is left of an epoch may make no batch for more ranks, where the loader
// drops short ones: the epoch is over then.
func TestResumeWhereNoBatchIsLeft(t *testing.T) {
	base := sets("data.train_rows=0:100", "data.eval_rows=1437:1450", "train.batch_size=8", "train.epochs=2", "loader.drop_last=true", "checkpoint.every_steps=1", "checkpoint.keep=99")
	one := train(t, jobFile("mlp"), append(base, "--nproc-per-node", "1")...) // 12 steps an epoch
	from := filepath.Join(one.dir, "checkpoints", "step-00000011")
	run := train(t, jobFile("mlp"), append(append(base, "--nproc-per-node", "4"), sets("checkpoint.resume="+from)...)...)
	if n := len(run.metrics.Steps); n != 3 || run.metrics.Steps[0].Epoch != 1 {
		t.Errorf("%d steps: %+v", n, run.metrics.Steps)
	}
}

func readState(t *testing.T, folder string) checkpoint.State {
	t.Helper()
	var s checkpoint.State
	if err := json.Unmarshal(readFile(t, filepath.Join(folder, "state.json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// readTraces counts, by epoch and sample, the lines of all ranks.
func readTraces(t *testing.T, pattern string, ranks int) map[int]map[int]int {
	t.Helper()
	seen := map[int]map[int]int{}
	for rank := range ranks {
		text := readFile(t, strings.ReplaceAll(pattern, "%RANK%", fmt.Sprint(rank)))
		for line := range strings.Lines(string(text)) {
			var epoch, index int
			if _, err := fmt.Sscan(line, &epoch, &index); err != nil {
				t.Fatalf("rank %d: %q: %v", rank, line, err)
			}
			if seen[epoch] == nil {
				seen[epoch] = map[int]int{}
			}
			seen[epoch][index]++
		}
	}
	return seen
}

// checkpoint.resume: none starts from scratch where auto would go on, and a run
// that is done has nothing more to do.
func TestResumeNoneAndDone(t *testing.T) {
	logs := t.TempDir()
	for i, c := range []struct {
		resume string
		lines  int // of steps in metrics.jsonl, so far
	}{{"auto", 11}, {"auto", 11}, {"none", 22}} {
		attempt(t, logs, jobFile("mlp"), sets("train.epochs=1", "checkpoint.resume="+c.resume)...).Want(t, 0)
		text := string(readFile(t, filepath.Join(logs, "run", "metrics.jsonl")))
		if n := strings.Count(text, `"event":"step"`); n != c.lines {
			t.Errorf("run %d (resume %s): %d steps in metrics.jsonl, want %d", i, c.resume, n, c.lines)
		}
	}
}
