package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// A transcript is a story: lines that begin with ">" are events ("> 1.5s exit 0
// code=3"), the lines below are what the machine does. "> tick" moves the clock
// to the machine's own deadline.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s differs (go test -update rewrites it); now:\n%s", file, got)
			}
		})
	}
}

func replay(t *testing.T, text string) string {
	var out strings.Builder
	var m *Machine
	var now time.Duration
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			fmt.Fprintln(&out, line)
			continue
		}
		if line[0] != '>' {
			continue
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line[1:])
		var actions []Action
		switch words[0] {
		case "new":
			m, actions = New(settingsOf(t, words[1:]))
			now = 0
		case "tick":
			deadline, ok := m.Deadline()
			if !ok {
				t.Fatalf("%s: nothing is waited for", line)
			}
			if early := m.Step(deadline-1, Tick{}); early != nil {
				t.Errorf("%s: acts before its time: %v", line, early)
			}
			now = deadline
			actions = m.Step(now, Tick{})
		default:
			at, err := time.ParseDuration(words[0])
			if err != nil || at < now {
				t.Fatalf("%s: bad time", line)
			}
			now = at
			actions = m.Step(now, eventOf(t, words[1:]))
		}
		for _, a := range actions {
			fmt.Fprintf(&out, "  %s\n", show(a))
		}
		if d, ok := m.Deadline(); ok {
			fmt.Fprintf(&out, "  (waits until %v)\n", d)
		}
	}
	return out.String()
}

func settingsOf(t *testing.T, words []string) Settings {
	s := Settings{Grace: 30 * time.Second, NoRetry: []int{2, 126, 127}}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "ranks":
			s.Ranks = number(t, v)
		case "restarts":
			s.MaxRestarts = number(t, v)
		case "grace":
			d, err := time.ParseDuration(v)
			if err != nil {
				t.Fatal(err)
			}
			s.Grace = d
		default:
			t.Fatalf("setting %q", w)
		}
	}
	return s
}

func eventOf(t *testing.T, words []string) Event {
	opt := func(name string) int {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				return number(t, v)
			}
		}
		return 0
	}
	switch words[0] {
	case "exit":
		e := Exit{Code: opt("code"), Signal: opt("signal"), Victim: slices.Contains(words, "victim")}
		if e.Signal != 0 {
			e.Code = 128 + e.Signal
		}
		return Exited{Rank: number(t, words[1]), Exit: e}
	case "startfailed":
		return StartFailed{Rank: number(t, words[1]), Code: opt("code")}
	case "swept":
		return Swept{Immortal: opt("immortal")}
	case "signal":
		return Signal{Number: number(t, words[1])}
	}
	t.Fatalf("event %q", words)
	return nil
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func show(a Action) string {
	switch a := a.(type) {
	case Launch:
		return fmt.Sprintf("launch, restart %d", a.Restart)
	case Stop:
		return fmt.Sprintf("stop with signal %d, until %v", a.Signal, a.Deadline)
	case Kill:
		return "kill"
	case Sweep:
		return fmt.Sprintf("sweep until %v, ask %v", a.Deadline, a.Ask)
	case Note:
		return fmt.Sprintf("note %v (%v)", a.What, a.After)
	case Over:
		return fmt.Sprintf("over: culprit %d, fates %v", a.Culprit, a.Fates)
	case Finish:
		r := a.Result
		return fmt.Sprintf("finish: %v code %d culprit %d signal %d restarts %d forced %v %v",
			r.Kind, r.Code, r.Culprit, r.Signal, r.Restarts, r.Forced, r.Reason)
	}
	return fmt.Sprintf("%#v", a)
}
