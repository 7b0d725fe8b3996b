package job

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Limits of a job file. A model of a thousand layers has some ten thousand
// nodes; aliases could make a small file grow without bound.
const (
	maxNodes = 20_000
	maxDepth = 32
)

// expander copies a tree with aliases and merge keys replaced by what they
// stand for. The copy keeps the places of the original.
type expander struct {
	src      *source
	left     int          // nodes that may still be made
	open     []*yaml.Node // anchors being expanded
	problems Problems
	fatal    bool
}

func (x *expander) report(n *yaml.Node, key, format string, args ...any) {
	if x.fatal {
		return
	}
	x.problems = append(x.problems, x.src.problem(n, key, format, args...))
}

// stop gives up: what is left would only repeat the problem.
func (x *expander) stop(n *yaml.Node, key, format string, args ...any) *yaml.Node {
	if !x.fatal {
		x.fatal = true
		x.problems = Problems{x.src.problem(n, key, format, args...)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Line: n.Line, Column: n.Column}
}

func (x *expander) expand(n *yaml.Node, key string, depth int) *yaml.Node {
	x.left--
	switch {
	case x.fatal:
		return x.stop(n, key, "")
	case x.left < 0:
		return x.stop(n, "", "more than %d values, aliases counted as what they stand for", maxNodes)
	case depth > maxDepth:
		return x.stop(n, "", "nested deeper than %d levels", maxDepth)
	case n.Style&yaml.TaggedStyle != 0:
		x.report(n, key, "the tag %s is not supported: write the value alone", shorten(n.Tag))
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(x.open, n.Alias) {
			return x.stop(n, key, "the alias *%s contains itself", shorten(n.Value))
		}
		return x.expand(n.Alias, key, depth)
	}
	if n.Anchor != "" {
		x.open = append(x.open, n)
		defer func() { x.open = x.open[:len(x.open)-1] }()
	}
	if n.Kind == yaml.MappingNode {
		return x.mapping(n, key, depth)
	}
	c := shallow(n)
	for i, item := range n.Content {
		c.Content = append(c.Content, x.expand(item, join(key, i), depth+1))
	}
	return c
}

// mapping keeps the first of equal keys; merged ones come last, and give way to
// those written out (https://yaml.org/type/merge.html).
func (x *expander) mapping(n *yaml.Node, key string, depth int) *yaml.Node {
	c := shallow(n)
	lines := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			x.report(k, key, "a key is a word, this is %s", describe(k))
			continue
		}
		if k.Value == "<<" && isPlain(k) {
			merged = append(merged, v)
			continue
		}
		at := join(key, k.Value)
		if first := lines[k.Value]; first != nil {
			x.report(k, at, "duplicate key (first in %s)", x.src.where(first))
			continue
		}
		lines[k.Value] = k
		x.left--
		c.Content = append(c.Content, shallow(k), x.expand(v, at, depth+1))
	}
	for _, m := range merged {
		x.merge(c, m, key, depth)
	}
	return c
}

// merge adds the keys of m, or of the mappings in the list m, that c lacks.
func (x *expander) merge(c, m *yaml.Node, key string, depth int) {
	from := x.expand(m, key, depth+1)
	sources := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, s := range sources {
		if s.Kind != yaml.MappingNode {
			x.report(m, key, "<< merges mappings, this is %s", describe(s))
			return
		}
		for i := 0; i+1 < len(s.Content); i += 2 {
			if child(c, s.Content[i].Value) == nil {
				c.Content = append(c.Content, s.Content[i], s.Content[i+1])
			}
		}
	}
}

// shallow is a node without its children, anchor and comments.
func shallow(n *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: n.Kind, Style: n.Style &^ yaml.TaggedStyle, Value: n.Value, Line: n.Line, Column: n.Column}
}

// child is the value of a key of a mapping, nil when there is none.
func child(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
