package job

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// alternatives are pairs of keys that replace each other: an override of one
// takes the other out of the file, since an override cannot remove a key.
var alternatives = [][2]string{{"train.epochs", "train.steps"}}

// override applies the overrides to the tree of a file, in order.
func (s *source) override(root *yaml.Node) Problems {
	var ps Problems
	for i, set := range s.sets {
		key, value, found := strings.Cut(set, "=")
		if !found || key == "" {
			ps = append(ps, s.ofSet(i, "", "an override is written key.path=value"))
			continue
		}
		n, problem := s.value(i, key, value)
		if problem == nil {
			problem = s.put(root, i, key, n)
		}
		if problem != nil {
			ps = append(ps, *problem)
		}
	}
	for _, pair := range alternatives {
		s.displace(root, pair[0], pair[1])
	}
	return ps
}

// value is the node of an override's value: YAML where it begins like a flow
// list, a flow mapping or a quoted text, else a scalar of exactly these
// characters, so that a * or a # in a path needs no quotes.
func (s *source) value(i int, key, text string) (*yaml.Node, *Problem) {
	fail := func(format string, args ...any) (*yaml.Node, *Problem) {
		p := s.ofSet(i, key, format, args...)
		return nil, &p
	}
	if _, _, what := unreadable([]byte(text)); what != "" {
		return fail("%s", what)
	}
	if text == "" || !strings.Contains(`[{"'`, text[:1]) {
		n := plainNode(text)
		s.origin[n] = i
		return n, nil
	}
	doc, second, err := documents([]byte(text))
	if err != nil {
		_, what := syntaxError(err, nil)
		return fail("not valid YAML: %s", what)
	}
	if second != nil || doc == nil || len(doc.Content) != 1 {
		return fail("one value is wanted")
	}
	root := doc.Content[0]
	if root.Kind == yaml.MappingNode && root.Style&yaml.FlowStyle == 0 {
		return fail("a mapping is written {key: value} here")
	}
	s.mark(root, i)
	x := expander{src: s, left: maxNodes}
	n := x.expand(root, key, strings.Count(key, "."))
	if len(x.problems) > 0 {
		return nil, &x.problems[0]
	}
	s.mark(n, i)
	return n, nil
}

// mark notes that a tree comes from an override. Aliases are left alone: what
// they point to is part of the tree already.
func (s *source) mark(n *yaml.Node, i int) {
	s.origin[n] = i
	for _, c := range n.Content {
		s.mark(c, i)
	}
}

// put sets the value at a path, making the mappings on the way to it.
func (s *source) put(root *yaml.Node, i int, key string, value *yaml.Node) *Problem {
	parts := strings.Split(key, ".")
	n := root
	for k, part := range parts {
		slot, text := s.slot(n, i, part)
		if slot == nil {
			p := s.ofSet(i, key, "%s%s", nameOf(parts[:k]), text)
			return &p
		}
		if k == len(parts)-1 {
			*slot = value
			return nil
		}
		if isNull(*slot) {
			*slot = mappingNode()
			s.origin[*slot] = i
		}
		n = *slot
	}
	return nil
}

func nameOf(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ".") + " "
}

// slot is where the value of one part of a path stands; a key that is not there
// is made, without a value.
func (s *source) slot(n *yaml.Node, i int, part string) (slot **yaml.Node, problem string) {
	switch n.Kind {
	case yaml.MappingNode:
		if part == "" {
			return nil, "has an empty name in its path"
		}
		for k := 0; k+1 < len(n.Content); k += 2 {
			if n.Content[k].Value == part {
				return &n.Content[k+1], ""
			}
		}
		key, value := textNode(part), plainNode("")
		s.origin[key], s.origin[value] = i, i
		n.Content = append(n.Content, key, value)
		return &n.Content[len(n.Content)-1], ""
	case yaml.SequenceNode:
		at, err := strconv.Atoi(part)
		if err != nil || at < 0 || at >= len(n.Content) {
			return nil, "is a list of " + strconv.Itoa(len(n.Content)) + ", counted from 0: there is no item " + shorten(part)
		}
		return &n.Content[at], ""
	}
	return nil, "is " + describe(n) + ": there are no keys in it"
}

// displace removes the one of two keys that an override has not set, if it has
// set the other.
func (s *source) displace(root *yaml.Node, a, b string) {
	section, keyA, _ := strings.Cut(a, ".")
	_, keyB, _ := strings.Cut(b, ".")
	m := child(root, section)
	if m == nil || m.Kind != yaml.MappingNode {
		return
	}
	nodeA, nodeB := child(m, keyA), child(m, keyB)
	if nodeA == nil || nodeB == nil {
		return
	}
	_, setA := s.origin[nodeA]
	_, setB := s.origin[nodeB]
	switch {
	case setA && !setB:
		drop(m, keyB)
	case setB && !setA:
		drop(m, keyA)
	}
}

func drop(m *yaml.Node, key string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = append(m.Content[:i:i], m.Content[i+2:]...)
			return
		}
	}
}
