package job

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Numbers are read from their text, not from what YAML 1.1 makes of it: no
// octal 010, no 0x10, no 1_0, and 1e3 is a real number only.
var (
	wholeText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	realText  = regexp.MustCompile(`^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	digitText = regexp.MustCompile(`^[-+.0-9]`)
	plainText = regexp.MustCompile(`^[A-Za-z0-9_./%][A-Za-z0-9_./%+-]*$`)
)

const decimalHint = "whole numbers are written in decimal digits alone: no 1e3, 0x10, 010 or 1_0"

// maxWhole bounds counts: the engine's indices are 32 bits wide on devices.
const maxWhole = math.MaxInt32

// whole is a whole number between two bounds.
type whole struct {
	at       *int
	min, max int
}

func from0(at *int) whole { return whole{at, 0, maxWhole} }
func from1(at *int) whole { return whole{at, 1, maxWhole} }

func (w whole) wants() string {
	if w.max < maxWhole {
		return fmt.Sprintf("a whole number from %d to %d", w.min, w.max)
	}
	return fmt.Sprintf("a whole number from %d", w.min)
}

func (w whole) decode(d *decoder, n *yaml.Node, key string) {
	v, hint := wholeOf(n)
	if hint == "" && v >= int64(w.min) && v <= int64(w.max) {
		*w.at = int(v)
		return
	}
	if hint == "" && v > maxWhole {
		hint = fmt.Sprintf("the largest is %d", maxWhole)
	}
	d.wrong(n, key, w, strings.TrimSpace(hint))
}

func (w whole) encode() *yaml.Node { return plainNode(strconv.Itoa(*w.at)) }

// wholeOf reads a whole number; hint says why it is none, and is a space when
// there is nothing to say.
func wholeOf(n *yaml.Node) (v int64, hint string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return 0, " "
	case !isPlain(n):
		if wholeText.MatchString(n.Value) {
			return 0, "without quotes"
		}
		return 0, " "
	case !wholeText.MatchString(n.Value):
		if digitText.MatchString(n.Value) && !realText.MatchString(n.Value) || strings.ContainsAny(n.Value, "eE") && realText.MatchString(n.Value) {
			return 0, decimalHint
		}
		return 0, " "
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, "it does not fit into 64 bits"
	}
	return v, ""
}

// seed is any whole number of 64 bits.
type seed struct{ at *int64 }

func (seed) wants() string { return "a whole number" }

func (s seed) decode(d *decoder, n *yaml.Node, key string) {
	v, hint := wholeOf(n)
	if hint != "" {
		d.wrong(n, key, s, strings.TrimSpace(hint))
		return
	}
	*s.at = v
}

func (s seed) encode() *yaml.Node { return plainNode(strconv.FormatInt(*s.at, 10)) }

// real is a finite number that passes ok, which rule puts into words.
type real struct {
	at   *float64
	rule string
	ok   func(float64) bool
}

func positive(at *float64) real {
	return real{at, "a number above 0", func(v float64) bool { return v > 0 }}
}

func notNegative(at *float64) real {
	return real{at, "a number from 0", func(v float64) bool { return v >= 0 }}
}

// fraction is for what decays: 1 would never forget.
func fraction(at *float64) real {
	return real{at, "a number from 0, below 1", func(v float64) bool { return v >= 0 && v < 1 }}
}

func (r real) wants() string { return r.rule }

func (r real) decode(d *decoder, n *yaml.Node, key string) {
	v, hint := realOf(n)
	if hint == "" && r.ok(v) {
		*r.at = v
		return
	}
	d.wrong(n, key, r, strings.TrimSpace(hint))
}

func (r real) encode() *yaml.Node { return realNode(*r.at) }

func realNode(v float64) *yaml.Node { return plainNode(strconv.FormatFloat(v, 'g', -1, 64)) }

// realOf reads a number; hint as for wholeOf.
func realOf(n *yaml.Node) (v float64, hint string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return 0, " "
	case !isPlain(n):
		if realText.MatchString(n.Value) {
			return 0, "without quotes"
		}
		return 0, " "
	case !realText.MatchString(n.Value):
		if digitText.MatchString(n.Value) {
			return 0, "numbers are written like 0.1, 10 or 1e-3: finite, and no 0x10, 010 or 1_0"
		}
		return 0, " "
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(n.Value), "e")
	switch {
	case err != nil:
		return 0, "it is too large"
	case v == 0 && strings.ContainsAny(mantissa, "123456789"):
		return 0, "it is too near to 0"
	case v == 0:
		return 0, "" // -0 is no number of its own
	}
	return v, ""
}

// truth is true or false.
type truth struct{ at *bool }

func (truth) wants() string { return "true or false" }

func (t truth) decode(d *decoder, n *yaml.Node, key string) {
	switch {
	case isPlain(n) && n.Value == "true":
		*t.at = true
	case isPlain(n) && n.Value == "false":
		*t.at = false
	default:
		d.wrong(n, key, t, "")
	}
}

func (t truth) encode() *yaml.Node { return plainNode(strconv.FormatBool(*t.at)) }

// text is any text; numbers and words count as what is written.
type text struct {
	at    *string
	empty bool // may be empty
}

func (text) wants() string { return "a text" }

func (t text) decode(d *decoder, n *yaml.Node, key string) {
	if s, ok := textOf(d, n, key, t); ok {
		if s == "" && !t.empty {
			d.report(n, key, "must not be empty")
			return
		}
		*t.at = s
	}
}

func textOf(d *decoder, n *yaml.Node, key string, v value) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n):
		d.wrong(n, key, v, "")
		return "", false
	case strings.ContainsRune(n.Value, 0):
		d.report(n, key, "has a zero byte in it")
		return "", false
	case !utf8.ValidString(n.Value):
		d.report(n, key, "is not UTF-8 text")
		return "", false
	}
	return n.Value, true
}

func (t text) encode() *yaml.Node { return textNode(*t.at) }

// choice is one of a few words.
type choice struct {
	at    *string
	words []string
}

func oneOf(at *string, words ...string) choice { return choice{at, words} }

func (c choice) wants() string { return "one of " + strings.Join(c.words, ", ") }

func (c choice) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		d.wrong(n, key, c, "")
		return
	}
	if !slices.Contains(c.words, n.Value) {
		hint := strings.TrimSuffix(strings.TrimPrefix(didYouMean(n.Value, c.words), " ("), ")")
		d.wrong(n, key, c, hint)
		return
	}
	*c.at = n.Value
	if what := unsupported(key, n.Value, c.words); what != "" {
		d.report(n, key, "%s", what)
	}
}

func (c choice) encode() *yaml.Node {
	if *c.at == "" {
		return nil
	}
	return textNode(*c.at)
}

// duration is a time span as Go writes it.
type duration struct{ at *time.Duration }

func (duration) wants() string { return "a duration such as 30s, 1m30s or 0" }

func (t duration) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.ScalarNode {
		if v, err := time.ParseDuration(n.Value); err == nil && v >= 0 {
			*t.at = v
			if what := unsupportedSpan(key, v); what != "" {
				d.report(n, key, "%s", what)
			}
			return
		}
	}
	hint := ""
	if isPlain(n) && wholeText.MatchString(n.Value) {
		hint = "the unit is missing"
	}
	d.wrong(n, key, t, hint)
}

func (t duration) encode() *yaml.Node { return plainNode(t.at.String()) }

// rows is a range of rows or columns.
type rows struct{ at *RowRange }

func (rows) wants() string { return `a range "from:to" of whole numbers, from below to` }

func (r rows) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.ScalarNode {
		from, to, found := strings.Cut(n.Value, ":")
		a, okA := count(from)
		b, okB := count(to)
		if found && okA && okB && a < b {
			*r.at = RowRange{From: a, To: b, Set: true}
			return
		}
	}
	d.wrong(n, key, r, "")
}

func (r rows) encode() *yaml.Node {
	if !r.at.Set {
		return nil
	}
	n := plainNode(r.at.String())
	n.Style = yaml.DoubleQuotedStyle
	return n
}

// String is "from:to", as in a job file; empty when the range is not set.
func (r RowRange) String() string {
	if !r.Set {
		return ""
	}
	return fmt.Sprintf("%d:%d", r.From, r.To)
}

// count reads a whole number from 0 out of a text that holds more.
func count(s string) (int, bool) {
	if !wholeText.MatchString(s) {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return int(v), err == nil && v >= 0
}
