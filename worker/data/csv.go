package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ddprun/ddprun/internal/job"
)

// maxLine bounds a line of a table, so that a file that is no table is refused
// early.
const maxLine = 64 << 20

// table is a CSV file in memory: features row by row, and labels.
type table struct {
	path     string
	width    int
	features []float32
	labels   []int32
	firstRow int // line of the file with sample 0
}

func (t *table) Len() int   { return len(t.labels) }
func (t *table) Spec() Spec { return Spec{Features: []int{t.width}} }

func (t *table) Read(i int, x []float32, _, y []int32) error {
	copy(x, t.features[i*t.width:(i+1)*t.width])
	y[0] = t.labels[i]
	return nil
}

func (t *table) CheckClasses(classes int) error {
	for i, l := range t.labels {
		if int(l) >= classes {
			return fmt.Errorf("%s: label %d is out of range: the model's last layer has %d classes, 0 to %d", t.place(i), l, classes, classes-1)
		}
	}
	return nil
}

func (t *table) place(i int) string { return fmt.Sprintf("%s:%d", t.path, t.firstRow+i) }

func openCSV(d *job.Data) (*Sets, error) {
	all, err := readCSV(d.Path, d.CSV)
	if err != nil {
		return nil, err
	}
	s := &Sets{}
	if s.Train, s.Eval, err = split(d, d.Path, all); err != nil || d.EvalPath == "" {
		return s, err
	}
	eval, err := readCSV(d.EvalPath, d.CSV)
	if err != nil {
		return nil, err
	}
	s.Eval, err = rows("data.eval_rows", d.EvalRows, d.EvalPath, eval)
	return s, err
}

// readCSV reads the file twice, first to count: growing a slice to the size of
// a large table would take up to three times its memory.
func readCSV(path string, c *job.CSV) (*table, error) {
	lines, size, err := countLines(path)
	if err != nil {
		return nil, err
	}
	in, err := openStream(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t := &table{path: path, width: c.Features.To - c.Features.From, firstRow: 1}
	// A value takes two bytes at least: a file of line ends makes no memory.
	t.features = make([]float32, 0, min(lines*int64(t.width), size/2+int64(t.width)))
	t.labels = make([]int32, 0, min(lines, size/2+1))
	if c.Header {
		t.firstRow = 2
	}
	p := rowParser{csv: c, path: path}
	if err := p.parseAll(in, t); err != nil {
		return nil, err
	}
	if t.Len() == 0 {
		return nil, fmt.Errorf("%s: there is no sample in it", path)
	}
	return t, nil
}

// countLines counts lines, an unfinished last one too, and bytes.
func countLines(path string) (lines, size int64, err error) {
	in, err := openStream(path)
	if err != nil {
		return 0, 0, err
	}
	defer in.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := in.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return lines + 1, size, nil
		}
		if err != nil {
			return 0, 0, in.broken(err)
		}
	}
}

// parseAll appends all rows of a file to t.
func (p *rowParser) parseAll(in *stream, t *table) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 1<<16), maxLine)
	for scan.Scan() {
		p.line++
		line := bytes.TrimSuffix(scan.Bytes(), []byte("\r"))
		if p.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
			if p.csv.Header {
				continue
			}
		}
		if len(line) == 0 {
			if p.blank == 0 {
				p.blank = p.line
			}
			continue
		}
		if err := p.parse(line, t); err != nil {
			return err
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line is longer than %d bytes; is this a CSV file?", p.path, p.line+1, maxLine)
	case err != nil:
		return in.broken(err)
	}
	return nil
}
