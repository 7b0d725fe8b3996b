package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// keys of the contract, in the order in which they are written.
const (
	stepKeys = "event attempt epoch step lr loss loss_per_rank grad_norm samples_per_s step_ms data_ms comm_ms scale mem_peak_bytes"
	evalKeys = "event epoch step loss correct total accuracy"
)

func TestFieldNamesAreThoseOfTheContract(t *testing.T) {
	for _, c := range []struct {
		event any
		keys  string
	}{
		{Step{Event: "step"}, stepKeys},
		{Eval{Event: "eval"}, evalKeys},
	} {
		line, err := json.Marshal(c.event)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		for _, k := range strings.Fields(c.keys) {
			if _, ok := got[k]; !ok {
				t.Errorf("%q is missing from %s", k, line)
			}
		}
		if _, ok := got["nonfinite"]; ok {
			t.Errorf("nonfinite without need: %s", line)
		}
	}
}

func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	nan, inf := Float(math.NaN()), Float(math.Inf(-1))
	line, err := json.Marshal(Step{Loss: nan, LossPerRank: []Float{1, inf}, GradNorm: nan, SamplesPerS: nan, LR: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"loss":null`, `"loss_per_rank":[1,null]`, `"lr":1e-9`, `"nonfinite":["loss=NaN","loss_per_rank[1]=-Inf","grad_norm=NaN"]`} {
		if !strings.Contains(string(line), want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	var back Step
	if err := json.Unmarshal(line, &back); err != nil || !math.IsNaN(float64(back.Loss)) || back.LR != 1e-9 {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestLinesReachTheFileWithoutAnotherWrite(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Step{Event: "step", Step: 3})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		l, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Steps) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the line never came")
		}
	}
	w.Write(Step{Event: "step", Step: 4})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := ReadFile(path); err != nil || len(l.Steps) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLinesGoOnWhenThereIsRoomAgain(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := os.WriteFile(path, []byte(`{"event":"st`), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	room := w.file
	for i := range 3 {
		if w.file = room; i == 1 {
			w.file = full
		}
		w.Write(Step{Event: "step", Step: i})
		if err := w.Flush(); (err != nil) != (i == 1) {
			t.Errorf("flush %d: %v", i, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ReadFile(path)
	if err != nil || len(l.Steps) != 2 || l.Steps[1].Step != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestWritersMayBeMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := range 500 {
				w.Write(Eval{Event: "eval", Step: 1000*k + i})
			}
		})
	}
	all.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var steps []int
	if err := Scan(f, nil, func(e Eval) { steps = append(steps, e.Step) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(steps)
	if len(slices.Compact(steps)) != 2000 {
		t.Errorf("%d lines", len(steps))
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "metrics.jsonl")} {
		_, err := Open(path, nil)
		if exitcode.Of(err) != exitcode.Machine || !strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("%v", err)
		}
		if _, err := ReadFile(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

func TestWholeLastLineWithoutItsEndCounts(t *testing.T) {
	l, err := Read(strings.NewReader("{\"event\":\"step\",\"step\":0}\n{\"event\":\"step\",\"step\":1}"))
	if err != nil || len(l.Steps) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

// FuzzRead: whatever is in the file, the result is in order.
func FuzzRead(f *testing.F) {
	f.Add("{\"event\":\"step\",\"step\":3}\n{\"event\":\"eval\",\"step\":2}\n{\"event\":\"step\",\"step\":1}\n{\"ev")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(l.Steps); i++ {
			if l.Steps[i-1].Step >= l.Steps[i].Step {
				t.Errorf("step %d before %d", l.Steps[i-1].Step, l.Steps[i].Step)
			}
		}
		for i := 1; i < len(l.Evals); i++ {
			if l.Evals[i-1].Step >= l.Evals[i].Step {
				t.Errorf("evaluation %d before %d", l.Evals[i-1].Step, l.Evals[i].Step)
			}
		}
	})
}
