package job

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// join is the name of a key or of a list's item below another.
func join(parent string, key any) string {
	if parent == "" {
		return fmt.Sprint(key)
	}
	return fmt.Sprint(parent, ".", key)
}

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// isPlain says whether a scalar stands without quotes.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style&quoted == 0 }

// isNull says whether a node has no value: nothing, ~ or null.
func isNull(n *yaml.Node) bool {
	if !isPlain(n) {
		return false
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// describe tells what a node is, for "wants X, got Y".
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "no value"
	case isPlain(n):
		return shorten(n.Value)
	}
	return fmt.Sprintf("the text %q", shorten(n.Value))
}

// Constructors of nodes to write.

func mappingNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// textNode is a text in quotes where it could be read as something else.
func textNode(text string) *yaml.Node {
	n := plainNode(text)
	if !plainText.MatchString(text) || isNull(n) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func listNode(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}
