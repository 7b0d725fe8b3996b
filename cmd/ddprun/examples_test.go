package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/testkit"
)

func example(name string) string { return filepath.Join("..", "..", "examples", name+".yaml") }

// The examples with the digits reach what the issue asks of them, and the
// README tells.
func TestDigitsExamples(t *testing.T) {
	for name, want := range map[string]int64{"digits": 325, "digits-cnn": 340} {
		t.Run(name, func(t *testing.T) {
			run := train(t, example(name))
			last := run.metrics.Evals[len(run.metrics.Evals)-1]
			if last.Total != 360 || last.Correct < want {
				t.Errorf("%d of %d right, want %d of 360", last.Correct, last.Total, want)
			}
			t.Logf("%d of %d right", last.Correct, last.Total)
		})
	}
}

// The text that comes with gpt-bytes.yaml is small, but it runs, and learns.
func TestGPTExampleRuns(t *testing.T) {
	run := train(t, example("gpt-bytes"), sets("train.steps=6", "train.eval_every=3")...)
	first, last := run.metrics.Steps[0], run.metrics.Steps[len(run.metrics.Steps)-1]
	if len(run.metrics.Steps) != 6 || len(run.metrics.Evals) != 2 || !(last.Loss < first.Loss) {
		t.Errorf("%d steps, %d evaluations, loss from %v to %v", len(run.metrics.Steps), len(run.metrics.Evals), first.Loss, last.Loss)
	}
}

func TestFashionExampleRuns(t *testing.T) {
	if _, err := os.Stat("/usr/share/datasets/fashion-mnist"); err != nil {
		t.Skip("package dataset-fashion-mnist is not installed")
	}
	run := train(t, example("fashion-mnist"), sets("train={steps: 6, batch_size: 64}", `data.eval_rows="0:200"`)...)
	if n, e := len(run.metrics.Steps), run.metrics.Evals; n != 6 || len(e) != 1 || e[0].Total != 200 {
		t.Errorf("%d steps, evaluations %+v", n, e)
	}
}

func TestProgramExampleRuns(t *testing.T) {
	args := []string{testkit.Binary(t), "--log-dir", t.TempDir(), example("echo-program")}
	r := testkit.Command{Args: args}.Run(t).Want(t, 0)
	if n := strings.Count(r.Stdout, "of 4 says hello"); n != 4 {
		t.Errorf("%d ranks say hello:\n%s", n, r)
	}
}

// No example is without a test that it is a job.
func TestExamplesAreJobs(t *testing.T) {
	files, err := filepath.Glob(example("*"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		testkit.Command{Args: []string{testkit.Binary(t), "--dry-run", f}}.Run(t).Want(t, 0)
	}
}
