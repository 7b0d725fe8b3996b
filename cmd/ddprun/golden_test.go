package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/worker/checkpoint"
	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
	"github.com/ddprun/ddprun/worker/metrics"
)

// reference is a run recorded from PyTorch DistributedDataParallel; see
// testdata/golden/README.md.
type reference struct {
	Steps []struct {
		Step        int       `json:"step"`
		LR          float64   `json:"lr"`
		GradNorm    float64   `json:"grad_norm"`
		LossPerRank []float64 `json:"loss_per_rank"`
	} `json:"steps"`
	TestCorrectPerEpoch []int64 `json:"test_correct_per_epoch"`
	TestTotal           int64   `json:"test_total"`
}

// TestGolden trains the recorded runs from the same weights and compares every
// loss of every rank, and the weights at the end.
func TestGolden(t *testing.T) {
	for _, name := range []string{"mlp_digits", "gpt_bytes"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", "golden")
			ref := readReference(t, filepath.Join(dir, name+".json"))
			run := train(t, filepath.Join(dir, name+".yaml"))
			compareSteps(t, ref, run)
			compareEvaluations(t, ref, run)
			compareWeights(t, filepath.Join(dir, name+".final.safetensors"), run.dir)
		})
	}
}

// trained is what a run left behind.
type trained struct {
	dir     string
	metrics metrics.Log
}

// train runs a job to its end through the real binary.
func train(t *testing.T, jobFile string, flags ...string) trained {
	t.Helper()
	logs := t.TempDir()
	args := append([]string{testkit.Binary(t), "--log-dir", logs, "--rdzv-id", "run", jobFile}, flags...)
	testkit.Command{Args: args, Timeout: time.Minute}.Run(t).Want(t, 0)
	dir := filepath.Join(logs, "run")
	log, err := metrics.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return trained{dir: dir, metrics: log}
}

func readReference(t *testing.T, path string) reference {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(text, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func compareSteps(t *testing.T, ref reference, run trained) {
	t.Helper()
	if len(run.metrics.Steps) != len(ref.Steps) {
		t.Fatalf("%d steps, want %d", len(run.metrics.Steps), len(ref.Steps))
	}
	for i, want := range ref.Steps {
		got := run.metrics.Steps[i]
		if got.Step != want.Step || len(got.LossPerRank) != len(want.LossPerRank) {
			t.Fatalf("step %d of %d ranks, want step %d of %d", got.Step, len(got.LossPerRank), want.Step, len(want.LossPerRank))
		}
		for rank, loss := range want.LossPerRank {
			near(t, "loss", want.Step, float64(got.LossPerRank[rank]), loss, 1e-4)
		}
		if want.LR != 0 {
			near(t, "lr", want.Step, float64(got.LR), want.LR, 1e-12)
			near(t, "gradient norm", want.Step, float64(got.GradNorm), want.GradNorm, 1e-3)
		}
	}
}

func compareEvaluations(t *testing.T, ref reference, run trained) {
	t.Helper()
	if len(run.metrics.Evals) != len(ref.TestCorrectPerEpoch) {
		t.Fatalf("%d evaluations, want %d", len(run.metrics.Evals), len(ref.TestCorrectPerEpoch))
	}
	for i, want := range ref.TestCorrectPerEpoch {
		got := run.metrics.Evals[i]
		if got.Total != ref.TestTotal || got.Correct < want-1 || got.Correct > want+1 {
			t.Errorf("epoch %d: %d of %d right, want %d of %d", i, got.Correct, got.Total, want, ref.TestTotal)
		}
	}
}

func compareWeights(t *testing.T, want, runDir string) {
	t.Helper()
	path, ok, err := checkpoint.Latest(filepath.Join(runDir, "checkpoints"), nil)
	if err != nil || !ok {
		t.Fatalf("no checkpoint: %v", err)
	}
	got, ref := openTensors(t, filepath.Join(path, "model.safetensors")), openTensors(t, want)
	if g, w := len(got.Names()), len(ref.Names()); g != w {
		t.Errorf("%d tensors, want %d", g, w)
	}
	for _, name := range ref.Names() {
		a, b := readFloats(t, got, name), readFloats(t, ref, name)
		for i := range b {
			if diff := math.Abs(float64(a[i] - b[i])); !(diff <= 1e-3) {
				t.Errorf("%s[%d] = %g, want %g", name, i, a[i], b[i])
				break
			}
		}
	}
}

func openTensors(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func readFloats(t *testing.T, f *safetensors.File, name string) []float32 {
	t.Helper()
	v, err := f.ReadFloat32(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func near(t *testing.T, what string, step int, got, want, tolerance float64) {
	t.Helper()
	if diff := math.Abs(got - want); !(diff <= tolerance) {
		t.Errorf("step %d: %s %.8g, want %.8g (off by %.2g)", step, what, got, want, diff)
	}
}
