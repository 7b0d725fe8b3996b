package job

import (
	"path/filepath"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// jobName is part of file names and of lines of text.
type jobName struct{ at *string }

func (jobName) wants() string { return "a name on one line, without / and at most 100 bytes long" }

func (s jobName) decode(d *decoder, n *yaml.Node, key string) {
	v, ok := textOf(d, n, key, s)
	if !ok {
		return
	}
	if !isJobName(v) {
		d.wrong(n, key, s, "")
		return
	}
	*s.at = v
}

func (s jobName) encode() *yaml.Node { return textNode(*s.at) }

func isJobName(s string) bool {
	return s != "" && len(s) <= 100 && s == strings.TrimSpace(s) && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == '/' || r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}

// nameFrom is the name of a job that has none: that of its file.
func nameFrom(file string) string {
	base := filepath.Base(file)
	if name := strings.TrimSuffix(base, filepath.Ext(base)); isJobName(name) {
		return name
	}
	return "job"
}

// tensorName is the first part of the names of a layer's tensors.
type tensorName struct{ at *string }

func (tensorName) wants() string { return "a name without spaces" }

func (s tensorName) decode(d *decoder, n *yaml.Node, key string) {
	v, ok := textOf(d, n, key, s)
	if !ok {
		return
	}
	if v == "" || strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		d.wrong(n, key, s, "")
		return
	}
	*s.at = v
}

func (s tensorName) encode() *yaml.Node { return textNode(*s.at) }
