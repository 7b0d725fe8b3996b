package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unsafe"

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
			return fmt.Errorf("%s:%d: label %d is out of range: the model's last layer has %d classes, 0 to %d", t.path, t.firstRow+i, l, classes, classes-1)
		}
	}
	return nil
}

func openCSV(d *job.Data) (*Sets, error) {
	all, err := readCSV(d.Path, d.CSV)
	if err != nil {
		return nil, err
	}
	s := &Sets{}
	if s.Train, s.Eval, err = split(d, d.Path, all); err != nil {
		return nil, err
	}
	if d.EvalPath != "" {
		eval, err := readCSV(d.EvalPath, d.CSV)
		if err != nil {
			return nil, err
		}
		if s.Eval, err = rows("data.eval_rows", d.EvalRows, d.EvalPath, eval); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func readCSV(path string, c *job.CSV) (*table, error) {
	in, err := openStream(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t := &table{path: path, width: c.Features.To - c.Features.From, firstRow: 1}
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 1<<16), maxLine)
	p := rowParser{csv: c, path: path}
	for scan.Scan() {
		p.line++
		line := bytes.TrimSuffix(scan.Bytes(), []byte("\r"))
		if p.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
			if c.Header {
				t.firstRow = 2
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
			return nil, err
		}
	}
	if err := scan.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes; is this a CSV file?", path, p.line+1, maxLine)
		}
		return nil, in.broken(err)
	}
	if t.Len() == 0 {
		return nil, fmt.Errorf("%s: there is no sample in it", path)
	}
	// Growing has left room that nothing will use.
	t.features, t.labels = slices.Clip(t.features), slices.Clip(t.labels)
	return t, nil
}

// rowParser turns lines into rows and remembers where it is.
type rowParser struct {
	csv     *job.CSV
	path    string
	line    int
	blank   int // first empty line so far, 0: none
	columns int // of the first row
}

// parse appends one line to t. Fields are separated by commas and may be in
// double quotes; numbers need no escapes.
func (p *rowParser) parse(line []byte, t *table) error {
	if p.blank > 0 {
		return fmt.Errorf("%s:%d: an empty line in the middle of the table", p.path, p.blank)
	}
	label, column := int32(-1), 0
	for rest, more := line, true; more; column++ {
		var field []byte
		field, rest, more = bytes.Cut(rest, []byte(","))
		isFeature := column >= p.csv.Features.From && column < p.csv.Features.To
		if !isFeature && column != p.csv.Label {
			continue
		}
		v, err := p.number(field, column)
		if err != nil {
			return err
		}
		if isFeature {
			t.features = append(t.features, float32(v*p.csv.Scale))
		}
		if column == p.csv.Label {
			if v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
				return fmt.Errorf("%s:%d: column %d: label %q is not a whole number from 0", p.path, p.line, column, field)
			}
			label = int32(v)
		}
	}
	if p.columns == 0 {
		p.columns = column
		if need := max(p.csv.Features.To, p.csv.Label+1); column < need {
			return fmt.Errorf("%s:%d: the row has %d columns, data.csv wants columns up to %d", p.path, p.line, column, need-1)
		}
	}
	if column != p.columns {
		return fmt.Errorf("%s:%d: the row has %d columns, the rows before it have %d", p.path, p.line, column, p.columns)
	}
	t.labels = append(t.labels, label)
	return nil
}

func (p *rowParser) number(field []byte, column int) (float64, error) {
	f := bytes.TrimSpace(field)
	if n := len(f); n >= 2 && f[0] == '"' && f[n-1] == '"' {
		f = f[1 : n-1]
	}
	// ParseFloat keeps no reference to its argument unless it fails.
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(f), len(f)), 64)
	if err != nil {
		hint := ""
		if p.line == 1 {
			hint = "; if the first line names the columns, set data.csv.header: true"
		}
		return 0, fmt.Errorf("%s:%d: column %d: %s is not a number%s", p.path, p.line, column, strconv.Quote(shorten(field)), hint)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v*p.csv.Scale) > math.MaxFloat32 {
		return 0, fmt.Errorf("%s:%d: column %d: %s is not a finite number", p.path, p.line, column, strconv.Quote(shorten(field)))
	}
	return v, nil
}

// shorten keeps a message readable whatever stands in the file.
func shorten(field []byte) string {
	const most = 40
	if len(field) > most {
		return string(field[:most]) + "..."
	}
	return string(field)
}

var _ io.Closer = (*stream)(nil)
