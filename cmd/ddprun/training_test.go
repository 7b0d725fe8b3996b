package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/worker/checkpoint"
	"github.com/ddprun/ddprun/worker/metrics"
)

// job is a file of testdata/jobs.
func jobFile(name string) string { return filepath.Join("testdata", "jobs", name+".yaml") }

// sets is a --set for each of pairs.
func sets(pairs ...string) []string {
	var args []string
	for _, p := range pairs {
		args = append(args, "--set", p)
	}
	return args
}

// newest is the folder of the newest whole checkpoint of a run.
func newest(t *testing.T, runDir string) string {
	t.Helper()
	path, ok, err := checkpoint.Latest(filepath.Join(runDir, "checkpoints"), nil)
	if err != nil || !ok {
		t.Fatalf("%s: no checkpoint: %v", runDir, err)
	}
	return path
}

// The same 128 samples make a step, however they are shared: between ranks, or
// between the batches that one rank accumulates.
func TestShardingDoesNotChangeTraining(t *testing.T) {
	for _, c := range []struct {
		job   string
		set   []string
		world []string // ranks x batch x accumulate
		// Float32 rounding, grown over all steps; AdamW makes much of small gradients.
		losses, weights float64
	}{
		{"mlp", nil, []string{"1 x 128 x 1", "4 x 32 x 1", "4 x 16 x 2", "2 x 32 x 2", "1 x 32 x 4"}, 5e-6, 2e-6},
		// Dropout would draw other masks.
		{"gpt", []string{"model.dropout=0"}, []string{"1 x 12 x 1", "2 x 6 x 1", "3 x 2 x 2"}, 5e-6, 5e-5},
	} {
		t.Run(c.job, func(t *testing.T) {
			t.Parallel()
			var first trained
			for i, w := range c.world {
				var ranks, batch, accumulate int
				if _, err := fmt.Sscanf(w, "%d x %d x %d", &ranks, &batch, &accumulate); err != nil {
					t.Fatal(err)
				}
				args := sets(append(c.set, fmt.Sprint("train.batch_size=", batch), fmt.Sprint("train.accumulate=", accumulate))...)
				run := train(t, jobFile(c.job), append(args, "--nproc-per-node", fmt.Sprint(ranks))...)
				if i == 0 {
					first = run
					continue
				}
				t.Run(w, func(t *testing.T) {
					sameCurve(t, first, run, c.losses)
					closeWeights(t, first, run, c.weights)
				})
			}
		})
	}
}

func sameCurve(t *testing.T, want, got trained, tolerance float64) {
	t.Helper()
	if len(got.metrics.Steps) != len(want.metrics.Steps) || len(got.metrics.Evals) != len(want.metrics.Evals) {
		t.Fatalf("%d steps and %d evaluations, want %d and %d",
			len(got.metrics.Steps), len(got.metrics.Evals), len(want.metrics.Steps), len(want.metrics.Evals))
	}
	worst := 0.0
	for i, w := range want.metrics.Steps {
		g := got.metrics.Steps[i]
		near(t, "loss", i, float64(g.Loss), float64(w.Loss), tolerance)
		near(t, "gradient norm", i, float64(g.GradNorm), float64(w.GradNorm), 10*tolerance)
		worst = max(worst, math.Abs(float64(g.Loss-w.Loss)))
	}
	for i, w := range want.metrics.Evals {
		near(t, "evaluation", w.Step, float64(got.metrics.Evals[i].Loss), float64(w.Loss), tolerance)
	}
	t.Logf("losses differ by at most %.2g", worst)
}

func closeWeights(t *testing.T, want, got trained, tolerance float64) {
	t.Helper()
	a := openTensors(t, filepath.Join(newest(t, want.dir), "model.safetensors"))
	b := openTensors(t, filepath.Join(newest(t, got.dir), "model.safetensors"))
	worst := 0.0
	for _, name := range a.Names() {
		v, w := readFloats(t, a, name), readFloats(t, b, name)
		for i := range v {
			if diff := math.Abs(float64(v[i] - w[i])); !(diff <= tolerance) {
				t.Fatalf("%s[%d] = %g, want %g", name, i, w[i], v[i])
			}
			worst = max(worst, math.Abs(float64(v[i]-w[i])))
		}
	}
	t.Logf("weights differ by at most %.2g", worst)
}

// Five rows to evaluate on, of which a fixed model has all but the first right.
// Padding would repeat the first; ranks that have no row join the sum.
func TestEvaluationDoesNotDependOnRanks(t *testing.T) {
	var first metrics.Eval
	for _, ranks := range []int{1, 2, 3, 4, 7} {
		run := train(t, filepath.Join("testdata", "golden", "mlp_digits.yaml"), append([]string{"--nproc-per-node", fmt.Sprint(ranks)},
			sets("model.init.from="+absolute(t, "testdata/golden/mlp_digits.final.safetensors"), "optimizer.lr=0", "optimizer.momentum=0",
				"data.train_rows=0:7", "data.eval_rows=1443:1448", "train.epochs=1", "checkpoint.every_epochs=0")...)...)
		if len(run.metrics.Evals) != 1 {
			t.Fatalf("%d ranks: %d evaluations", ranks, len(run.metrics.Evals))
		}
		e := run.metrics.Evals[0]
		if ranks == 1 {
			first = e
		}
		if e.Correct != 4 || e.Total != 5 || e.Accuracy != 0.8 {
			t.Errorf("%d ranks: %d of %d right, accuracy %v, want 4 of 5", ranks, e.Correct, e.Total, e.Accuracy)
		}
		if diff := math.Abs(float64(e.Loss - first.Loss)); !(diff < 1e-6) {
			t.Errorf("%d ranks: loss %v, 1 rank has %v", ranks, e.Loss, first.Loss)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// debug.trace_samples writes what each rank's sampler gives it.
func TestTraceSamplesIsTheShard(t *testing.T) {
	dir := t.TempDir()
	train(t, jobFile("mlp"), sets("debug.trace_samples="+filepath.Join(dir, "tr.%RANK%"), "train.epochs=2", "data.train_rows=0:101", "train.batch_size=7", "sampler.seed=9")...)
	for rank := range 4 {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("tr.%d", rank)))
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for epoch := range 2 {
			r := testkit.Command{Args: strings.Fields(fmt.Sprintf("%s shard --n 101 --world-size 4 --rank %d --epoch %d --seed 9", testkit.Binary(t), rank, epoch))}.Run(t).Want(t, 0)
			for _, index := range strings.Fields(r.Stdout) {
				fmt.Fprintf(&want, "%d %s\n", epoch, index)
			}
		}
		if string(got) != want.String() {
			t.Errorf("rank %d: trace\n%s\nwant\n%s", rank, got, want.String())
		}
	}
}

// The resolved job in the run directory is a job like any other, overrides
// and defaults included, and gives the same run.
func TestResolvedJobRunsAgain(t *testing.T) {
	first := train(t, jobFile("cnn"), append([]string{"--nproc-per-node", "2"}, sets("train.epochs=2", "optimizer.lr=0.02", "model.layers.6.p=0.5")...)...)
	if n := len(first.metrics.Steps); n != 2*16 {
		t.Errorf("%d steps, want 32: --set or --nproc-per-node has no effect", n)
	}
	if lr := first.metrics.Steps[4].LR; lr != 0.02 {
		t.Errorf("lr %v at the end of the warm-up, want 0.02", lr)
	}
	second := train(t, filepath.Join(first.dir, "job.yaml"))
	sameFiles(t, newest(t, first.dir), newest(t, second.dir))
	one, two := readFile(t, filepath.Join(first.dir, "job.yaml")), readFile(t, filepath.Join(second.dir, "job.yaml"))
	if !bytes.Equal(one, two) {
		t.Errorf("the resolved job resolves to another one:\n%s\nthen\n%s", one, two)
	}
}

// sameFiles compares the tensors of two checkpoints byte by byte.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	if filepath.Base(want) != filepath.Base(got) {
		t.Errorf("the run ends with %s, want %s", got, want)
	}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		if !bytes.Equal(readFile(t, filepath.Join(want, name)), readFile(t, filepath.Join(got, name))) {
			t.Errorf("%s of %s differs from that of %s", name, got, want)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
