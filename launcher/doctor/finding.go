package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Status is how a check ended.
type Status string

// Statuses. Only Fail makes a machine unfit.
const (
	Pass Status = "PASS"
	Warn Status = "WARN"
	Fail Status = "FAIL"
	Skip Status = "SKIP" // does not apply here
)

// Finding is one check's result.
type Finding struct {
	Check  string `json:"check"` // driver, gpu, nccl, ...
	Status Status `json:"status"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // with Warn and Fail
}

// Sentence is text and remedy in one line.
func (f Finding) Sentence() string {
	text := f.Check + ": " + f.Text
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

func pass(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Pass, Text: fmt.Sprintf(format, args...)}
}

func skip(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: Skip, Text: fmt.Sprintf(format, args...)}
}

func warn(check, remedy, format string, args ...any) Finding {
	return Finding{check, Warn, fmt.Sprintf(format, args...), remedy}
}

func fail(check, remedy, format string, args ...any) Finding {
	return Finding{check, Fail, fmt.Sprintf(format, args...), remedy}
}

// Unfit lists the checks that failed, each once.
func Unfit(fs []Finding) []string {
	var out []string
	for _, f := range fs {
		if f.Status == Fail && !slices.Contains(out, f.Check) {
			out = append(out, f.Check)
		}
	}
	return out
}

// Write prints findings for people, a line each and one more for a remedy.
func Write(w io.Writer, fs []Finding) error {
	var b strings.Builder
	width := 0
	for _, f := range fs {
		width = max(width, len(f.Check))
	}
	for _, f := range fs {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", f.Status, width, f.Check, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "      %-*s  -> %s\n", width, "", f.Remedy)
		}
	}
	count := func(s Status) (n int) {
		for _, f := range fs {
			if f.Status == s {
				n++
			}
		}
		return n
	}
	fmt.Fprintf(&b, "%d passed, %d warnings, %d failed, %d do not apply\n", count(Pass), count(Warn), count(Fail), count(Skip))
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON prints one object: whether the machine is fit, the findings, and
// the facts they rest on.
func WriteJSON(w io.Writer, fs []Finding, facts Facts) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Fit      bool      `json:"fit"`
		Findings []Finding `json:"findings"`
		Facts    Facts     `json:"facts"`
	}{len(Unfit(fs)) == 0, fs, facts})
}
