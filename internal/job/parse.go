package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parse turns the text of a job file into a tree of plain mappings, lists and
// scalars. A problem that leaves no tree gives nil.
func (s *source) parse(text []byte) (*yaml.Node, Problems) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if line, column, what := unreadable(text); what != "" {
		return nil, Problems{s.at(line, column, "%s", what)}
	}
	doc, second, err := documents(text)
	if err != nil {
		line, what := syntaxError(err, text)
		return nil, Problems{s.at(line, 0, "not valid YAML: %s", what)}
	}
	switch {
	case doc == nil || len(doc.Content) == 0 || isNull(doc.Content[0]):
		return nil, Problems{s.at(0, 0, "the file is empty: a job has at least a program, or model, data, train and optimizer")}
	case second != nil:
		return nil, Problems{s.at(max(second.Line, 1), 0, "a second document begins here, a job file has one (is there a --- too many?)")}
	}
	root := doc.Content[0]
	x := expander{src: s, left: maxNodes}
	tree := x.expand(root, "", 0)
	switch {
	case x.fatal:
		return nil, x.problems
	case tree.Kind != yaml.MappingNode:
		return nil, Problems{s.at(root.Line, root.Column, "a job file is a mapping (key: value), this is %s", describe(tree))}
	}
	return tree, x.problems
}

// documents parses text and returns its first document, and its second when
// there is one.
func documents(text []byte) (first, second *yaml.Node, err error) {
	// The parser has been fuzzed by many, but a job file must never end the
	// program with a stack trace.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var docs [2]*yaml.Node
	for i := range docs {
		n := new(yaml.Node)
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		docs[i] = n
	}
	return docs[0], docs[1], nil
}

// unreadable finds the first byte that is not the text of a job file.
func unreadable(text []byte) (line, column int, what string) {
	line, column = 1, 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, column, fmt.Sprintf("byte 0x%02x is not UTF-8 text", text[0])
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return line, column, fmt.Sprintf("control character 0x%02x in the text", r)
		case r == '\n':
			line, column = line+1, 0
		}
		text = text[size:]
		column++
	}
	return 0, 0, ""
}

var linePrefix = regexp.MustCompile(`^line \d+: `)

// syntaxError is what the YAML parser says, and the line where it goes wrong.
// The line in the parser's own text is often that of the surrounding block, or
// one less.
func syntaxError(err error, text []byte) (line int, what string) {
	what = linePrefix.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
	if strings.Contains(what, "cannot start any token") && tabIndent.Match(text) {
		what += " (YAML does not allow tabs for indentation)"
	}
	return firstFailing(err, text), what
}

var tabIndent = regexp.MustCompile(`(?m)^ *\t`)

// firstFailing is the line up to which text must be read to get err: the parser
// works from front to back, so more lines give the same error.
func firstFailing(err error, text []byte) int {
	const most = 16 << 10 // the search reads the text some ten times over
	if len(text) > most {
		return 0
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	ends, end := make([]int, len(lines)), 0
	for i, l := range lines {
		end += len(l)
		ends[i] = end
	}
	k := sort.Search(len(lines)-1, func(k int) bool {
		_, _, e := documents(text[:ends[k]])
		return e != nil && e.Error() == err.Error()
	})
	return k + 1
}
