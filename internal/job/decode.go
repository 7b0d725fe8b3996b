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
// nearest key of its own section, or one of that very name in another.
func (d *decoder) reportUnknown(schema *section) {
	if len(d.unknown) == 0 {
		return
	}
	homes := map[string]string{} // where a key belongs
	schema.visit("", func(at string, f field) {
		if w := plainWord(f.key); homes[w] == "" {
			homes[w] = at
		}
	})
	for _, u := range d.unknown {
		key := u.node.Value
		d.report(u.node, join(u.parent, key), "unknown key%s", d.hint(key, u.section.keys(), homes[plainWord(key)]))
	}
}

// hint is what to write instead of an unknown key; home is the key of that name
// in another section, if there is one.
func (d *decoder) hint(key string, known []string, home string) string {
	if hint := didYouMean(key, known); hint != "" {
		return hint
	}
	if home == "" {
		return " (known here: " + strings.Join(known, ", ") + ")"
	}
	if n := d.given[home]; n != nil {
		return " (did you mean " + home + ", which " + d.src.where(n) + " sets?)"
	}
	return " (did you mean " + home + "?)"
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
