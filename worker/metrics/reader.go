package metrics

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Log is the course of a run: what its last attempts made of each step.
type Log struct {
	Steps []Step
	Evals []Eval
}

// ReadFile reads metrics.jsonl; see Read.
func ReadFile(path string) (Log, error) {
	f, err := os.Open(path)
	if err != nil {
		return Log{}, err
	}
	defer f.Close()
	l, err := Read(f)
	if err != nil {
		return Log{}, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// Read reads events. Lines that a killed attempt left torn and events of other
// kinds are passed over. Where an attempt has repeated steps of an earlier
// one, the later lines count.
func Read(r io.Reader) (Log, error) {
	var l Log
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err == nil {
			l.add(line)
			continue
		}
		if err == io.EOF {
			return l, nil
		}
		return Log{}, err
	}
}

func (l *Log) add(line []byte) {
	var kind struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(line, &kind) != nil {
		return
	}
	switch kind.Event {
	case "step":
		var s Step
		if json.Unmarshal(line, &s) != nil {
			return
		}
		for len(l.Steps) > 0 && l.Steps[len(l.Steps)-1].Step >= s.Step {
			l.Steps = l.Steps[:len(l.Steps)-1]
		}
		// Evaluations come after the step before them, so those of repeated
		// steps go as well.
		for len(l.Evals) > 0 && l.Evals[len(l.Evals)-1].Step > s.Step {
			l.Evals = l.Evals[:len(l.Evals)-1]
		}
		l.Steps = append(l.Steps, s)
	case "eval":
		var e Eval
		if json.Unmarshal(line, &e) != nil {
			return
		}
		for len(l.Evals) > 0 && l.Evals[len(l.Evals)-1].Step >= e.Step {
			l.Evals = l.Evals[:len(l.Evals)-1]
		}
		l.Evals = append(l.Evals, e)
	}
}
