package rankenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxErrorFile bounds what a launcher reads of a rank's error file.
const maxErrorFile = 1 << 20

// Report is why a rank ended, in its own words.
type Report struct {
	Message string    // "what failed: why", may have several lines
	Stack   string    // of the rank's own language, may be empty
	Time    time.Time // when it failed; zero if the file does not say
	// Victim: the rank only saw another one go; it is not the cause.
	Victim bool
}

// errorFile is torchrun's first shape. Extra keys of ours stand beside those
// that torchrun reads.
type errorFile struct {
	Message struct {
		Message   string    `json:"message"`
		ExtraInfo extraInfo `json:"extraInfo"`
	} `json:"message"`
	Victim bool `json:"ddprun_victim,omitempty"`
}

type extraInfo struct {
	Stack     string `json:"py_callstack"`
	Timestamp string `json:"timestamp"` // whole seconds since 1970, as text
}

// WriteReport leaves r in the rank's error file, where the launcher finds it
// after the rank has ended. It does nothing when the launcher gave no file.
func (e Env) WriteReport(r Report) error {
	if e.ErrorFile == "" {
		return nil
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	var f errorFile
	f.Message.Message = r.Message
	f.Message.ExtraInfo = extraInfo{Stack: r.Stack, Timestamp: strconv.FormatInt(r.Time.Unix(), 10)}
	f.Victim = r.Victim
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("error file: %w", err)
	}
	// A name of its own first: the launcher must never read half a report.
	tmp := filepath.Join(filepath.Dir(e.ErrorFile), "."+filepath.Base(e.ErrorFile)+".tmp")
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return fmt.Errorf("error file: %w", err)
	}
	if err := os.Rename(tmp, e.ErrorFile); err != nil {
		return fmt.Errorf("error file: %w", err)
	}
	return nil
}

// ReadReport reads an error file in either of torchrun's shapes: "message" as
// an object with text, stack and time, or as plain text with "timestamp" beside
// it. A file that does not exist gives os.ErrNotExist.
func ReadReport(r io.Reader) (Report, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxErrorFile+1))
	if err != nil {
		return Report{}, fmt.Errorf("error file: %w", err)
	}
	if len(data) > maxErrorFile {
		return Report{}, fmt.Errorf("error file: larger than %d bytes", maxErrorFile)
	}
	var top struct {
		Message   json.RawMessage `json:"message"`
		Timestamp json.RawMessage `json:"timestamp"`
		Victim    bool            `json:"ddprun_victim"`
	}
	if err := json.Unmarshal(data, &top); err != nil {
		return Report{}, fmt.Errorf("error file: %w", err)
	}
	out := Report{Victim: top.Victim, Time: parseTime(top.Timestamp)}
	if json.Unmarshal(top.Message, &out.Message) == nil {
		return out.checked()
	}
	var inner struct {
		Message   string `json:"message"`
		ExtraInfo struct {
			Stack     string          `json:"py_callstack"`
			Timestamp json.RawMessage `json:"timestamp"`
		} `json:"extraInfo"`
	}
	if err := json.Unmarshal(top.Message, &inner); err != nil {
		return Report{}, fmt.Errorf("error file: message: %w", err)
	}
	out.Message, out.Stack = inner.Message, inner.ExtraInfo.Stack
	if t := parseTime(inner.ExtraInfo.Timestamp); !t.IsZero() {
		out.Time = t
	}
	return out.checked()
}

func (r Report) checked() (Report, error) {
	if strings.TrimSpace(r.Message) == "" {
		return Report{}, errors.New("error file: no message")
	}
	return r, nil
}

// parseTime accepts epoch seconds as text or as a number.
func parseTime(raw json.RawMessage) time.Time {
	s, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || s <= 0 || s > 1<<40 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s * 1000))
}
