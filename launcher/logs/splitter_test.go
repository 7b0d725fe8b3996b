package logs

import (
	"bytes"
	"strings"
	"testing"
)

// splitDumb is the slow and obvious reading of the rules: take lines, drop
// what a carriage return overwrote.
func splitDumb(prefix, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		ended := strings.HasSuffix(line, "\n")
		line = strings.TrimRight(strings.TrimSuffix(line, "\n"), "\r")
		if i := strings.LastIndexByte(line, '\r'); i >= 0 {
			line = line[i+1:]
		}
		if ended || line != "" {
			out.WriteString(prefix + line + "\n")
		}
	}
	return out.String()
}

func split(prefix string, chunks ...string) string {
	s := splitter{prefix: []byte(prefix)}
	var out []byte
	for _, c := range chunks {
		out = s.feed([]byte(c), out)
	}
	return string(s.end(out))
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a\nb\n", "> a\n> b\n"},
		{"no newline at the end", "> no newline at the end\n"},
		{"\n\n", "> \n> \n"},
		{"", ""},
		{"dos\r\nline\r\r\n", "> dos\n> line\n"},
		{"10%\r20%\r100%\ndone\n", "> 100%\n> done\n"},
		{"\r10%\r20%", "> 20%\n"},
		{"10%\r20%\r", "> 20%\n"},
		{"nul\x00byte\n", "> nul\x00byte\n"},
	} {
		if got := split("> ", c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
		if twin := splitDumb("> ", c.in); twin != c.want {
			t.Errorf("%q: the dumb twin says %q", c.in, twin)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add("a\rb\r\nc\r\r\nd", 3)
	f.Add("\r\r\r", 1)
	f.Fuzz(func(t *testing.T, text string, step int) {
		if len(text) > MaxPiece {
			return
		}
		step = max(1, step%17)
		var chunks []string
		for rest := text; rest != ""; {
			n := min(step, len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		if got, want := split("# ", chunks...), splitDumb("# ", text); got != want {
			t.Errorf("%q in steps of %d: got %q, want %q", text, step, got, want)
		}
	})
}

func TestLongLineComesInBoundedPieces(t *testing.T) {
	s := splitter{prefix: []byte("> ")}
	total := 0
	var out []byte
	for range 100 {
		out = s.feed(bytes.Repeat([]byte("x"), 10_000), out[:0])
		for line := range bytes.Lines(out) {
			if len(line) != MaxPiece+3 || !bytes.HasPrefix(line, []byte("> x")) {
				t.Fatalf("a piece of %d bytes", len(line))
			}
			total += len(line) - 3
		}
		if cap(s.buf) > 2*MaxPiece {
			t.Fatalf("holds %d bytes", cap(s.buf))
		}
	}
	out = s.end(nil)
	if total += len(out) - 3; total != 1_000_000 {
		t.Errorf("%d bytes came through", total)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		chunks []string
		want   string
	}{
		{[]string{"a\nb", "c\n\n"}, "a|bc"},
		{[]string{"\n \nx\n"}, "x"},
		{[]string{"10%\r", "20%\r", "\nboom"}, "20%|boom"},
		{[]string{"dos\r", "\nend\r\n"}, "dos|end"},
		{nil, ""},
	} {
		var tl tail
		for _, chunk := range c.chunks {
			tl.feed([]byte(chunk))
		}
		if got := strings.Join(tl.last(), "|"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.chunks, got, c.want)
		}
	}
}

func TestTailKeepsTheLastLinesAndCutsLongOnes(t *testing.T) {
	var tl tail
	for i := range 100 {
		tl.feed([]byte(strings.Repeat(string(rune('a'+i%26)), 3*tailWidth) + "\n"))
	}
	got := tl.last()
	if len(got) != tailLines {
		t.Fatalf("%d lines", len(got))
	}
	if last := got[tailLines-1]; len(last) != tailWidth+3 || last[0] != 'a'+99%26 || !strings.HasSuffix(last, "...") {
		t.Errorf("last line has %d bytes, begins %q", len(last), last[:1])
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"abcdef", 3, "abc"},
		{"abc", 80, "abc"},
		{"\x1b[31mabcdef\x1b[0m", 2, "\x1b[31mab\x1b[0m"},
		{"äöü", 2, "äö"},
		{"a\tb\x00c\x1b[2Jd", 80, "abc[2Jd"},
		{"abc", 0, ""},
		{"abc", -1, ""},
	} {
		if got := string(fit([]byte(c.in), c.width)); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}
