package worker

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// sampleTrace writes which samples each applied step of a rank consumed, one
// line "epoch index" a sample. A nil trace does nothing.
type sampleTrace struct {
	file *os.File
	w    *bufio.Writer
	step []byte // lines of the step under way
}

// openTrace opens the file of one rank: %RANK% in path is the rank.
func openTrace(path string, rank int) (*sampleTrace, error) {
	if path == "" {
		return nil, nil
	}
	name := strings.ReplaceAll(path, "%RANK%", strconv.Itoa(rank))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("debug.trace_samples: %w", err), exitcode.Machine)
	}
	return &sampleTrace{file: f, w: bufio.NewWriter(f)}, nil
}

func (t *sampleTrace) add(epoch int, indices []int) {
	if t == nil {
		return
	}
	for _, i := range indices {
		t.step = strconv.AppendInt(t.step, int64(epoch), 10)
		t.step = append(t.step, ' ')
		t.step = strconv.AppendInt(t.step, int64(i), 10)
		t.step = append(t.step, '\n')
	}
}

// flush writes the lines of a step that has been applied.
func (t *sampleTrace) flush() error {
	if t == nil {
		return nil
	}
	_, err := t.w.Write(t.step)
	t.step = t.step[:0]
	if err == nil {
		err = t.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("debug.trace_samples: %w", err)
	}
	return nil
}

func (t *sampleTrace) close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}
