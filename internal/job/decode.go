package job

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder walks a tree along the schema and collects every problem.
type decoder struct {
	src      *source
	root     *yaml.Node
	given    map[string]*yaml.Node // values that the file or an override has, by key
	bad      map[string]bool       // keys with a problem
	unknown  []unknownKey
	problems Problems
}

// unknownKey waits until the whole tree has been read: a message can then tell
// where a key of that name belongs.
type unknownKey struct {
	section *section
	node    *yaml.Node
	parent  string
}

func newDecoder(src *source, root *yaml.Node) *decoder {
	return &decoder{src: src, root: root, given: map[string]*yaml.Node{}, bad: map[string]bool{}}
}

func (d *decoder) report(n *yaml.Node, key, format string, args ...any) {
	d.bad[key] = true
	d.problems = append(d.problems, d.src.problem(n, key, format, args...))
}

// wrong reports a value of the wrong type or outside its range; hint may be
// empty.
func (d *decoder) wrong(n *yaml.Node, key string, v value, hint string) {
	if isNull(n) {
		d.report(n, key, "has no value: wants %s", v.wants())
		return
	}
	if hint != "" {
		hint = " (" + hint + ")"
	}
	d.report(n, key, "wants %s, got %s%s", v.wants(), describe(n), hint)
}

// refuse reports a problem of a value that was read well: it stands at the key's
// value, or at the section that lacks the key.
func (d *decoder) refuse(key, format string, args ...any) {
	d.report(d.place(key), key, format, args...)
}

// place is the node of a key, or of the nearest section around it.
func (d *decoder) place(key string) *yaml.Node {
	for key != "" {
		if n := d.given[key]; n != nil {
			return n
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return d.root
}

// sound says whether none of the keys had a problem: only then do their values
// mean something.
func (d *decoder) sound(keys ...string) bool {
	for _, k := range keys {
		if d.bad[k] {
			return false
		}
	}
	return true
}

func (d *decoder) has(key string) bool { return d.given[key] != nil }

// reportUnknown names what each unknown key was most likely meant to be: the
// same key of another section, or the nearest one of its own.
func (d *decoder) reportUnknown(schema *section) {
	for _, u := range d.unknown {
		key, at := u.node.Value, join(u.parent, u.node.Value)
		keys := u.section.keys()
		if hint := d.elsewhere(schema, key); hint != "" && nearest(key, keys) == "" {
			d.report(u.node, at, "unknown key (%s)", hint)
			continue
		}
		if hint := didYouMean(key, keys); hint != "" {
			d.report(u.node, at, "unknown key%s", hint)
			continue
		}
		d.report(u.node, at, "unknown key (known here: %s)", strings.Join(keys, ", "))
	}
}

// elsewhere finds a key of that very name, or one written a little differently,
// in another section.
func (d *decoder) elsewhere(schema *section, key string) string {
	hint := ""
	schema.visit("", func(at string, f field) {
		if hint != "" || plainWord(f.key) != plainWord(key) {
			return
		}
		hint = "did you mean " + at + "?"
		if n := d.given[at]; n != nil {
			hint = "did you mean " + at + ", which " + d.src.where(n) + " sets?"
		}
	})
	return hint
}

// visit calls f for each key of a section and of those below it.
func (s *section) visit(prefix string, f func(at string, f field)) {
	for _, fl := range s.fields {
		at := join(prefix, fl.key)
		f(at, fl)
		switch v := fl.val.(type) {
		case *section:
			v.visit(at, f)
		case interface{ inner() *section }:
			v.inner().visit(at, f)
		}
	}
}
