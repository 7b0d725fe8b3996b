package data

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ddprun/ddprun/internal/job"
)

// rowParser turns lines into rows and remembers where it is.
type rowParser struct {
	csv     *job.CSV
	path    string
	line    int
	blank   int // first empty line so far, 0: none
	columns int // of the first row
}

// parse appends one line to t.
func (p *rowParser) parse(line []byte, t *table) error {
	if p.blank > 0 {
		return fmt.Errorf("%s:%d: an empty line before the end of the table", p.path, p.blank)
	}
	label, column := int32(-1), 0
	for rest, more := line, true; more; column++ {
		var field []byte
		var err error
		if field, rest, more, err = nextField(rest); err != nil {
			return p.wrong(column, "%w", err)
		}
		switch {
		case column == p.csv.Label:
			label, err = p.label(field, column)
		case column >= p.csv.Features.From && column < p.csv.Features.To:
			var v float32
			v, err = p.feature(field, column)
			t.features = append(t.features, v)
		}
		if err != nil {
			return err
		}
	}
	if err := p.checkWidth(column); err != nil {
		return err
	}
	t.labels = append(t.labels, label)
	return nil
}

// checkWidth compares the number of columns of a row with the rows before it.
func (p *rowParser) checkWidth(columns int) error {
	if p.columns == 0 {
		if need := max(p.csv.Features.To, p.csv.Label+1); columns < need {
			return fmt.Errorf("%s:%d: the row has %d columns, data.csv wants columns up to %d (the first is 0)", p.path, p.line, columns, need-1)
		}
		p.columns = columns
	}
	if columns != p.columns {
		return fmt.Errorf("%s:%d: the row has %d columns, the rows before it have %d", p.path, p.line, columns, p.columns)
	}
	return nil
}

var errQuote = errors.New("a quoted field does not end, or something stands behind its end")

// nextField cuts the first field off a line (RFC 4180, but for line ends in
// quotes). Of a quoted field it returns what is between the quotes; that may
// have doubled quotes, which no number has.
func nextField(line []byte) (field, rest []byte, more bool, err error) {
	start := bytes.TrimLeft(line, " \t")
	if len(start) == 0 || start[0] != '"' {
		field, rest, more = bytes.Cut(line, []byte(","))
		return bytes.TrimSpace(field), rest, more, nil
	}
	field = start[1:]
	end := bytes.IndexByte(field, '"')
	for end >= 0 && end+1 < len(field) && field[end+1] == '"' {
		next := bytes.IndexByte(field[end+2:], '"')
		if next < 0 {
			return nil, nil, false, errQuote
		}
		end += 2 + next
	}
	if end < 0 {
		return nil, nil, false, errQuote
	}
	behind, rest, more := bytes.Cut(field[end+1:], []byte(","))
	if len(bytes.TrimSpace(behind)) > 0 {
		return nil, nil, false, errQuote
	}
	return bytes.TrimSpace(field[:end]), rest, more, nil
}

func (p *rowParser) label(field []byte, column int) (int32, error) {
	v, err := p.number(field, column)
	if err == nil && (v < 0 || v > math.MaxInt32 || v != math.Trunc(v)) {
		err = p.wrong(column, "label %s is not a whole number from 0", quote(field))
	}
	return int32(v), err
}

func (p *rowParser) feature(field []byte, column int) (float32, error) {
	v, err := p.number(field, column)
	if err != nil {
		return 0, err
	}
	if x := float32(v * p.csv.Scale); !math.IsInf(float64(x), 0) {
		return x, nil
	}
	return 0, p.wrong(column, "%s is too large for a float32%s", quote(field), scaled(p.csv.Scale))
}

func scaled(scale float64) string {
	if scale == 1 {
		return ""
	}
	return fmt.Sprintf(" once multiplied by data.csv.scale, %g", scale)
}

func (p *rowParser) number(field []byte, column int) (float64, error) {
	v, err := strconv.ParseFloat(string(field), 64)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0): // 1e400 as well
		return 0, p.wrong(column, "%s is not a finite number", quote(field))
	case err != nil && p.line == 1:
		return 0, p.wrong(column, "%s is not a number; if the first line names the columns, set data.csv.header: true", quote(field))
	case err != nil:
		return 0, p.wrong(column, "%s is not a number", quote(field))
	}
	return v, nil
}

func (p *rowParser) wrong(column int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: column %d: %w", p.path, p.line, column, fmt.Errorf(format, args...))
}

// quote keeps a message short and readable whatever stands in the file.
func quote(field []byte) string {
	const most = 40
	if len(field) > most {
		return strconv.Quote(string(field[:most]) + "...")
	}
	return strconv.Quote(string(field))
}
