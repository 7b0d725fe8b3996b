package logs

import "bytes"

// The last lines of a rank's output go into the verdict; longer lines are cut.
const (
	tailLines = 20
	tailWidth = 2 << 10
)

// tail keeps the last lines of a stream.
type tail struct {
	lines [tailLines][]byte // ring of finished lines
	next  int
	count int
	cur   []byte
	cut   bool // cur lost its end
	cr    bool
}

func (t *tail) feed(chunk []byte) {
	for len(chunk) > 0 {
		if t.cr && chunk[0] != '\n' && chunk[0] != '\r' {
			t.cur, t.cut = t.cur[:0], false // the frame was overwritten
		}
		n := lineEnd(chunk)
		if n < 0 {
			t.cr = false
			t.grow(chunk)
			return
		}
		t.grow(chunk[:n])
		t.cr = chunk[n] == '\r'
		if !t.cr {
			t.finish()
		}
		chunk = chunk[n+1:]
	}
}

func (t *tail) grow(text []byte) {
	room := tailWidth - len(t.cur)
	if len(text) > room {
		text, t.cut = text[:room], true
	}
	t.cur = append(t.cur, text...)
}

func (t *tail) finish() {
	if t.cut {
		t.cur = append(t.cur, "..."...)
	}
	t.lines[t.next] = append(t.lines[t.next][:0], t.cur...)
	t.next = (t.next + 1) % tailLines
	t.count = min(t.count+1, tailLines)
	t.cur, t.cut = t.cur[:0], false
}

// last returns the kept lines, oldest first, without empty ones at the ends.
func (t *tail) last() []string {
	var all []string
	for i := range t.count {
		all = append(all, string(t.lines[(t.next-t.count+i+tailLines)%tailLines]))
	}
	if len(t.cur) > 0 {
		all = append(all, string(t.cur))
	}
	for len(all) > 0 && len(bytes.TrimSpace([]byte(all[len(all)-1]))) == 0 {
		all = all[:len(all)-1]
	}
	for len(all) > 0 && len(bytes.TrimSpace([]byte(all[0]))) == 0 {
		all = all[1:]
	}
	return all[max(0, len(all)-tailLines):]
}
