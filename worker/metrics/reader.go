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
	Steps []Step // by step
	Evals []Eval // by step
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

// Read reads events. Where an attempt has repeated steps of an earlier one, the
// later lines count.
func Read(r io.Reader) (Log, error) {
	var l Log
	err := Scan(r, l.addStep, l.addEval)
	return l, err
}

// Scan calls step and eval for each event, in the order of the lines, those of
// superseded attempts too. Lines that a killed attempt left torn and events of
// other kinds are passed over.
func Scan(r io.Reader, step func(Step), eval func(Eval)) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		// A last line without its end can still be a whole object.
		event(line, step, eval)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func event(line []byte, step func(Step), eval func(Eval)) {
	var kind struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(line, &kind) != nil {
		return
	}
	switch kind.Event {
	case "step":
		var s Step
		if json.Unmarshal(line, &s) == nil {
			step(s)
		}
	case "eval":
		var e Eval
		if json.Unmarshal(line, &e) == nil {
			eval(e)
		}
	}
}

func (l *Log) addStep(s Step) {
	for len(l.Steps) > 0 && l.Steps[len(l.Steps)-1].Step >= s.Step {
		l.Steps = l.Steps[:len(l.Steps)-1]
	}
	// An evaluation counts the updates before it: one that came after a
	// repeated step is superseded as well.
	for len(l.Evals) > 0 && l.Evals[len(l.Evals)-1].Step > s.Step {
		l.Evals = l.Evals[:len(l.Evals)-1]
	}
	l.Steps = append(l.Steps, s)
}

func (l *Log) addEval(e Eval) {
	for len(l.Evals) > 0 && l.Evals[len(l.Evals)-1].Step >= e.Step {
		l.Evals = l.Evals[:len(l.Evals)-1]
	}
	l.Evals = append(l.Evals, e)
}
