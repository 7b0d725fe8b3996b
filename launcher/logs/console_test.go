package logs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// screen is a terminal of one column of lines: enough to see what stays.
func screen(bytes string) []string {
	lines, col := []string{""}, 0
	for i := 0; i < len(bytes); i++ {
		cur := &lines[len(lines)-1]
		switch b := bytes[i]; {
		case b == '\n':
			lines, col = append(lines, ""), 0
		case b == '\r':
			col = 0
		case strings.HasPrefix(bytes[i:], "\x1b[K"):
			*cur = (*cur)[:col]
			i += 2
		default:
			*cur = (*cur)[:col] + string(b) + (*cur)[min(col+1, len(*cur)):]
			col++
		}
	}
	return lines
}

func waitScreen(t *testing.T, m *memory, want ...string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := screen(m.text())
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("screen %q, want %q\nbytes %q", got, want, m.text())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFramesStandBelowWholeLines(t *testing.T) {
	b := newBench(30)
	r0 := b.open(t, Spec{Owner: 0, Show: true, Prefix: "[rank 0] "})
	r1 := b.open(t, Spec{Owner: 1, Show: true, Prefix: "[rank 1] "})
	write(t, r0, "10%\r")
	waitScreen(t, b.out, "[rank 0] 10%")
	write(t, r1, "hello\n")
	waitScreen(t, b.out, "[rank 1] hello", "[rank 0] 10%")
	write(t, r1, "\r50%") // tqdm's way: the return comes first
	write(t, r0, "20%\r")
	waitScreen(t, b.out, "[rank 1] hello", "[rank 0] 20%")
	if _, err := b.console.Writer(Stdout).Write([]byte("launcher speaks\n")); err != nil {
		t.Fatal(err)
	}
	waitScreen(t, b.out, "[rank 1] hello", "launcher speaks", "[rank 0] 20%")
	write(t, r0, "30%"+strings.Repeat("=", 40)+"\r") // wider than the screen
	waitScreen(t, b.out, "[rank 1] hello", "launcher speaks", "[rank 0] 30%"+strings.Repeat("=", 17))
	write(t, r0, "done\n")
	waitScreen(t, b.out, "[rank 1] hello", "launcher speaks", "[rank 0] done", "[rank 1] 50%")
	finish(r0)
	finish(r1)
	waitScreen(t, b.out, "[rank 1] hello", "launcher speaks", "[rank 0] done", "[rank 1] 50%", "")
	b.console.Close()
}

func TestFramesCollapseElsewhere(t *testing.T) {
	b := newBench(0)
	s := b.open(t, Spec{Show: true, Prefix: "> "})
	for i := range 100 {
		write(t, s, fmt.Sprintf("%d%%\r", i))
	}
	write(t, s, "100%\nend\n")
	finish(s)
	if got := b.out.text(); got != "> 100%\n> end\n" {
		t.Errorf("got %q", got)
	}
}

func TestLauncherMessageStartsALine(t *testing.T) {
	b := newBench(40)
	s := b.open(t, Spec{Show: true})
	write(t, s, "half a line")
	waitScreen(t, b.out, "half a line")
	fmt.Fprintln(b.console.Writer(Stderr), "note")
	if got := b.out.text(); got != "half a line\n" {
		t.Errorf("stdout %q", got)
	}
	if got := b.err.text(); got != "note\n" {
		t.Errorf("stderr %q", got)
	}
	finish(s)
}

// Between two programs connected by a pipe nothing may be added to the bytes.
func TestLauncherMessageLeavesAPipeAlone(t *testing.T) {
	b := newBench(0)
	s := b.open(t, Spec{Show: true})
	write(t, s, "half ")
	fmt.Fprintln(b.console.Writer(Stderr), "note")
	write(t, s, "a line")
	finish(s)
	b.console.Close()
	if got := b.out.text(); got != "half a line" {
		t.Errorf("stdout %q", got)
	}
}
