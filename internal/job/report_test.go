package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReports compares the whole report of each bad job with the text beside
// it.
func TestReports(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Load(file, nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestManyProblems(t *testing.T) {
	text := "x: {}\n"
	for i := range 500 {
		text += "k" + strings.Repeat("y", i) + ": 1\n"
	}
	lines := strings.Split(problems(t, text), "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "job.yaml: 405 more problems" {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

// TestOneLine keeps what users write from breaking the report.
func TestOneLine(t *testing.T) {
	got := problems(t, "\"a\\nb\\e[31m\": 1\n"+tiny, "train.batch_size=\n", "data.type="+strings.Repeat("x", 1000))
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("%d line ends in %q", n, got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > 400 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range [][2]string{
		{"batchsize", "batch_size"},
		{"Batch-Size", "batch_size"},
		{"epoch", "epochs"},
		{"lable", "label"},
		{"zzz", ""},
		{"", ""},
		{strings.Repeat("é", 1000), ""},
	} {
		if got := nearest(c[0], []string{"epochs", "steps", "batch_size", "label"}); got != c[1] {
			t.Errorf("%.20s: %q, want %q", c[0], got, c[1])
		}
	}
	words := []string{"", "a", "ab", "ba", "abc", "acb", "batch", "catch", "bath", "steps"}
	for _, a := range words {
		for _, b := range words {
			if got, want := distance(a, b), slowDistance(a, b); got != want {
				t.Errorf("%q to %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

// slowDistance is the definition.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	if a[0] == b[0] {
		return slowDistance(a[1:], b[1:])
	}
	return 1 + min(slowDistance(a[1:], b), slowDistance(a, b[1:]), slowDistance(a[1:], b[1:]))
}
