package metrics

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEventsSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Event: "step", Epoch: 1, Step: 7, LR: 0.1, Loss: Float(math.NaN()), LossPerRank: []Float{1.5, Float(math.Inf(1))}, MemPeak: 1 << 40}
	w.Write(step)
	w.Write(Eval{Event: "eval", Step: 8, Correct: 3, Total: 4, Accuracy: 0.75})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ReadFile(path)
	if err != nil || len(l.Steps) != 1 || len(l.Evals) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	got := l.Steps[0]
	if got.Step != 7 || got.LR != 0.1 || !math.IsNaN(float64(got.Loss)) || got.LossPerRank[0] != 1.5 || got.MemPeak != 1<<40 {
		t.Errorf("%+v", got)
	}
	if l.Evals[0].Accuracy != 0.75 {
		t.Errorf("%+v", l.Evals[0])
	}
}

func TestLaterAttemptsCount(t *testing.T) {
	const lines = `{"event":"step","attempt":0,"step":0}
{"event":"step","attempt":0,"step":1}
{"event":"eval","attempt":0,"step":2,"correct":1}
{"event":"step","attempt":0,"step":2}
{"event":"eval","attempt":0,"step":3,"correct":2}
{"event":"step","attempt":0,"st
not json
{"event":"something else"}
{"event":"step","attempt":1,"step":2}
{"event":"eval","attempt":1,"step":3,"correct":5}
{"event":"step","attempt":1,"step":3}
{"event":"step","attempt":1,"ste`
	l, err := Read(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	var attempts []int
	for i, s := range l.Steps {
		if s.Step != i {
			t.Errorf("line %d is step %d", i, s.Step)
		}
		attempts = append(attempts, s.Attempt)
	}
	if len(attempts) != 4 || attempts[1] != 0 || attempts[2] != 1 {
		t.Errorf("attempts %v", attempts)
	}
	if len(l.Evals) != 2 || l.Evals[0].Correct != 1 || l.Evals[1].Correct != 5 {
		t.Errorf("%+v", l.Evals)
	}
}

func TestTornLineDoesNotSwallowTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := os.WriteFile(path, []byte("{\"event\":\"step\",\"step\":0}\n{\"event\":\"st"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	w.Write(Step{Event: "step", Step: 1})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ReadFile(path)
	if err != nil || len(l.Steps) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestFullDiskWarnsOnce(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	warned := 0
	w, err := Open("/dev/full", func(error) { warned++ })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10000 {
		w.Write(Step{Event: "step", Step: i})
	}
	_ = w.Close()
	if warned != 1 {
		t.Errorf("warned %d times", warned)
	}
}

func TestMeter(t *testing.T) {
	var m Meter
	at := time.Unix(1000, 0)
	m.Start(at)
	for range 50 {
		at = at.Add(100 * time.Millisecond)
		m.Step(at, 32)
	}
	if r := m.Rate(); math.Abs(r-320) > 1e-6 {
		t.Errorf("rate %g, want 320", r)
	}
	at = at.Add(time.Hour)
	m.Pause(at)
	if left := m.Left(20); left != 2*time.Second {
		t.Errorf("%v left, want 2s", left)
	}
}

// clock moves a little with each look.
func clock(p *Progress, each time.Duration) {
	at := time.Unix(0, 0)
	p.now = func() time.Time { at = at.Add(each); return at }
	p.meter.Start(at)
}

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 10, 25)
	clock(p, 10*time.Millisecond)
	for i := 1; i <= 25; i++ {
		p.Step(0, i, 8, 0.5, 0.1)
	}
	p.Eval(0, 0.25, 0.5, 180, 360)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "epoch 0  step 10/25  loss 0.5000") || !strings.Contains(lines[3], "180 of 360 right (50.00 %)") {
		t.Errorf("%q", lines)
	}
}

func TestProgressBarIsNotRedrawnTooOften(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, true, 10, 1000)
	clock(p, time.Millisecond)
	for i := 1; i <= 1000; i++ {
		p.Step(0, i, 8, 0.5, 0.1)
	}
	if n := strings.Count(out.String(), "\r"); n < 5 || n > 12 {
		t.Errorf("%d frames in one second", n)
	}
	if strings.Contains(out.String(), "\n") {
		t.Error("a frame has a newline")
	}
}

func TestConsoleThatIsGone(t *testing.T) {
	p := NewProgress(brokenWriter{}, false, 1, 10)
	p.Step(0, 1, 1, 1, 1)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestBannerAligns(t *testing.T) {
	var out bytes.Buffer
	if err := Banner(&out, []Item{{"title", ""}, {"a", "1"}, {"longer", "2"}}); err != nil {
		t.Fatal(err)
	}
	if want := "title\n  a       1\n  longer  2\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
