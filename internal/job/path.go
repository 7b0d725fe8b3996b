package job

import (
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// path is a file or a folder. It is absolute once it is read: in a file it is
// relative to the file's folder, in an override to the current folder.
// %RANK% in it is kept for whoever opens it.
type path struct {
	at     *string
	words  []string // texts that are no paths
	empty  bool     // may be empty: not set
	within *string  // relative to this folder, when it is set
}

func (p path) wants() string {
	if len(p.words) > 0 {
		return strings.Join(p.words, ", ") + ", or a path"
	}
	return "a path"
}

func (p path) decode(d *decoder, n *yaml.Node, key string) {
	s, ok := textOf(d, n, key, p)
	switch {
	case !ok:
		return
	case s == "" && !p.empty:
		d.report(n, key, "must not be empty")
		return
	case s == "" || slices.Contains(p.words, s):
		*p.at = s
		return
	}
	if !filepath.IsAbs(s) {
		base := d.src.base(n)
		if p.within != nil && *p.within != "" {
			base = *p.within
		}
		s = filepath.Join(base, s)
	}
	*p.at = filepath.Clean(s)
}

func (p path) encode() *yaml.Node { return textNode(*p.at) }
