package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// maxProblems keeps a report readable when a file is no job file at all.
const maxProblems = 100

// Problem is one thing that is wrong with a job file or an override.
type Problem struct {
	Place string // "job.yaml:12:5", "job.yaml", or "--set train.batch_size=x"
	Key   string // "train.batch_size"; empty when the file as a whole is meant
	Text  string

	order [3]int // file before --set, then line and column
}

func (p Problem) String() string {
	if p.Key == "" {
		return p.Place + ": " + p.Text
	}
	return p.Place + ": " + p.Key + ": " + p.Text
}

// Problems is everything that is wrong, in the order of the file, then of the
// overrides. Its text has one line a problem.
type Problems []Problem

func (ps Problems) Error() string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// ExitCode puts a bad job file into the usage class: nothing was started.
func (Problems) ExitCode() int { return exitcode.Usage }

// report brings problems into their order and to a number that can be read.
func (s *source) report(ps Problems) Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(slices.Compare(a.order[:], b.order[:]), cmp.Compare(a.Key, b.Key))
	})
	ps = slices.CompactFunc(ps, func(a, b Problem) bool { return a.String() == b.String() })
	if more := len(ps) - maxProblems; more > 0 {
		ps = append(ps[:maxProblems:maxProblems], s.at(0, 0, "%d more problems", more))
	}
	return ps
}

// source tells where the nodes of a job come from.
type source struct {
	name   string             // of the file, as the user wrote it
	dir    string             // absolute folder of the file: base of its relative paths
	cwd    string             // absolute: base of the relative paths of overrides
	sets   []string           // overrides, as the user wrote them
	origin map[*yaml.Node]int // nodes that overrides made: index in sets
}

// problem is a problem at a node.
func (s *source) problem(n *yaml.Node, key, format string, args ...any) Problem {
	p := Problem{Key: oneLine(key), Text: oneLine(fmt.Sprintf(format, args...))}
	if i, ok := s.origin[n]; ok {
		p.Place, p.order = s.setPlace(i), [3]int{1, i, 0}
		return p
	}
	p.Place, p.order = s.place(n.Line, n.Column), [3]int{0, n.Line, n.Column}
	return p
}

// at is a problem at a place of the file; line 0 means the file as a whole,
// column 0 the whole line.
func (s *source) at(line, column int, format string, args ...any) Problem {
	return Problem{Place: s.place(line, column), Text: oneLine(fmt.Sprintf(format, args...)), order: [3]int{0, line, column}}
}

// ofSet is a problem of an override as a whole.
func (s *source) ofSet(i int, key, format string, args ...any) Problem {
	return Problem{Place: s.setPlace(i), Key: oneLine(key), Text: oneLine(fmt.Sprintf(format, args...)), order: [3]int{1, i, 0}}
}

func (s *source) setPlace(i int) string { return "--set " + shorten(s.sets[i]) }

func (s *source) place(line, column int) string {
	name := oneLine(s.name)
	switch {
	case line == 0:
		return name
	case column == 0:
		return fmt.Sprintf("%s:%d", name, line)
	}
	return fmt.Sprintf("%s:%d:%d", name, line, column)
}

// where names the place of a node inside a sentence.
func (s *source) where(n *yaml.Node) string {
	if i, ok := s.origin[n]; ok {
		return s.setPlace(i)
	}
	return fmt.Sprintf("line %d", n.Line)
}

// base is the folder that a relative path at a node starts from.
func (s *source) base(n *yaml.Node) string {
	if _, ok := s.origin[n]; ok {
		return s.cwd
	}
	return s.dir
}

// oneLine keeps a report at one line a problem, whatever stands in the file.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// shorten cuts what a user wrote to a length that a message can bear.
func shorten(s string) string {
	const most = 60
	rs := []rune(oneLine(s))
	if len(rs) > most {
		return string(rs[:most]) + "..."
	}
	return string(rs)
}
