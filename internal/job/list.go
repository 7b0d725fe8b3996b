package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sizes is a list of at least one whole number from 1.
type sizes struct{ at *[]int }

func (sizes) wants() string { return "a list of whole numbers from 1, such as [1, 28, 28]" }

func (s sizes) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.wrong(n, key, s, "")
		return
	}
	list, problems := make([]int, len(n.Content)), len(d.problems)
	for i, item := range n.Content {
		from1(&list[i]).decode(d, item, join(key, i))
	}
	if len(d.problems) > problems {
		d.bad[key] = true
		return
	}
	*s.at = list
}

func (s sizes) encode() *yaml.Node {
	if *s.at == nil {
		return nil
	}
	n := listNode()
	for _, v := range *s.at {
		n.Content = append(n.Content, from1(&v).encode())
	}
	return n
}

// betas are the two decay rates of Adam.
type betas struct{ at *[2]float64 }

func (betas) wants() string { return "a list of two numbers from 0, below 1, such as [0.9, 0.999]" }

func (b betas) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		d.wrong(n, key, b, "")
		return
	}
	for i, item := range n.Content {
		fraction(&b.at[i]).decode(d, item, join(key, i))
	}
}

func (b betas) encode() *yaml.Node { return listNode(realNode(b.at[0]), realNode(b.at[1])) }

// command is a program and its arguments.
type command struct{ at *[]string }

func (command) wants() string { return "a list of texts, such as [python3, train.py]" }

func (c command) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.wrong(n, key, c, "")
		return
	}
	list := make([]string, len(n.Content))
	for i, item := range n.Content {
		text{at: &list[i], empty: i > 0}.decode(d, item, join(key, i))
	}
	*c.at = list
}

func (c command) encode() *yaml.Node {
	n := listNode()
	for _, s := range *c.at {
		n.Content = append(n.Content, textNode(s))
	}
	return n
}

// environment is variables by name.
type environment struct{ at *map[string]string }

func (environment) wants() string { return "a mapping of names to texts" }

func (e environment) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, key, e, "")
		return
	}
	if len(n.Content) == 0 {
		return
	}
	vars := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, at := n.Content[i], join(key, n.Content[i].Value)
		if k.Value == "" || strings.ContainsAny(k.Value, "=\x00") {
			d.report(k, at, "is not the name of a variable")
			continue
		}
		var v string
		text{at: &v, empty: true}.decode(d, n.Content[i+1], at)
		vars[k.Value] = v
	}
	*e.at = vars
}

func (e environment) encode() *yaml.Node {
	if len(*e.at) == 0 {
		return nil
	}
	n := mappingNode()
	for _, k := range slices.Sorted(maps.Keys(*e.at)) {
		n.Content = append(n.Content, textNode(k), textNode((*e.at)[k]))
	}
	return n
}

// ranks is launch.nproc_per_node.
type ranks struct{ at *string }

func (ranks) wants() string { return "a whole number from 1, or one of auto, cpu, gpu" }

func (r ranks) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.ScalarNode {
		v, ok := count(n.Value)
		if ok && v >= 1 && v <= maxWhole || slices.Contains([]string{"auto", "cpu", "gpu"}, n.Value) {
			*r.at = n.Value
			return
		}
	}
	d.wrong(n, key, r, "")
}

func (r ranks) encode() *yaml.Node { return plainNode(*r.at) }

// nodes is launch.nnodes.
type nodes struct{ at *string }

func (nodes) wants() string { return "a whole number from 1, or MIN:MAX" }

func (s nodes) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind == yaml.ScalarNode {
		least, most, isRange := strings.Cut(n.Value, ":")
		a, okA := count(least)
		b, okB := count(most)
		if !isRange {
			b, okB = a, true
		}
		if okA && okB && a >= 1 && a <= b && b <= maxWhole {
			*s.at = n.Value
			return
		}
	}
	d.wrong(n, key, s, "")
}

func (s nodes) encode() *yaml.Node {
	n := plainNode(*s.at)
	if strings.Contains(*s.at, ":") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// layerList is model.layers: a list of layers for sequential, a number of
// blocks for the other types.
type layerList struct{ model *Model }

func (l layerList) isList() bool { return l.model.Type == "" || l.model.Type == "sequential" }

func (l layerList) wants() string {
	if l.isList() {
		return "a list of layers, such as [{op: linear, in: 64, out: 10}]"
	}
	return from1(nil).wants()
}

func (l layerList) decode(d *decoder, n *yaml.Node, key string) {
	if !l.isList() {
		from1(&l.model.Depth).decode(d, n, key)
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		if l.model.Type != "" {
			d.wrong(n, key, l, "")
		}
		return
	}
	l.model.Layers = make([]Layer, len(n.Content))
	for i, item := range n.Content {
		at := join(key, i)
		d.given[at] = item
		layerSection(&l.model.Layers[i]).decode(d, item, at)
	}
}

func (l layerList) encode() *yaml.Node {
	if !l.isList() {
		return from1(&l.model.Depth).encode()
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range l.model.Layers {
		item := layerSection(&l.model.Layers[i]).encode()
		item.Style = yaml.FlowStyle
		n.Content = append(n.Content, item)
	}
	return n
}

// describeLayer names a layer in a message: its place, and its name if it has
// one.
func describeLayer(i int, l Layer) string {
	if l.Name == "" {
		return fmt.Sprintf("layer %d (%s)", i, l.Op)
	}
	return fmt.Sprintf("layer %d (%s %s)", i, l.Op, l.Name)
}
