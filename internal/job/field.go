package job

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is how one kind of value is read from a node into its place in a Job,
// and written back.
type value interface {
	// decode reads n, the value of key, and reports what is wrong with it.
	decode(d *decoder, n *yaml.Node, key string)
	// encode is what decode reads back to the same value; nil when the value is
	// not set.
	encode() *yaml.Node
	// wants tells what is allowed, as in "a whole number from 1".
	wants() string
}

// field is one key of a section.
type field struct {
	key  string
	val  value
	need bool     // an error when it is missing
	omit bool     // not written when it is 0 or empty
	only []string // the kinds of its section that have it; none: all
	def  string   // what the default is called when it hangs on something else
	doc  string
}

// section is a mapping with a fixed set of keys. Where a section comes in
// kinds (optimizers, layers), its first field tells which.
type section struct {
	fields []field
	kind   *string
	noun   string // what a kind is called: "op relu"
	// fill sets the defaults that hang on the kind, once it is known.
	fill func()
	// finish sets the defaults that hang on other keys.
	finish func(d *decoder, key string)
}

func (s *section) wants() string { return "a mapping of " + strings.Join(s.keys(), ", ") }

func (s *section) keys() []string {
	var ks []string
	for _, f := range s.fields {
		if s.has(f) {
			ks = append(ks, f.key)
		}
	}
	return ks
}

func (s *section) field(key string) (field, bool) {
	i := slices.IndexFunc(s.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return s.fields[i], true
}

// has says whether a field belongs to the section's kind. All do while the kind
// is not known.
func (s *section) has(f field) bool {
	return len(f.only) == 0 || s.kind == nil || *s.kind == "" || slices.Contains(f.only, *s.kind)
}

// decode reads the fields in their own order, so that the kind comes first.
func (s *section) decode(d *decoder, n *yaml.Node, key string) {
	if n.Kind != yaml.MappingNode {
		if isNull(n) {
			d.report(n, key, "has no value: remove it, or write {} for a section without keys")
			return
		}
		d.wrong(n, key, s, "")
		return
	}
	for i, f := range s.fields {
		s.decodeField(d, n, key, f)
		if i == 0 && s.fill != nil {
			s.fill()
		}
	}
	if s.finish != nil {
		s.finish(d, key)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if _, known := s.field(n.Content[i].Value); !known {
			d.unknown = append(d.unknown, unknownKey{s, n.Content[i], key})
		}
	}
}

func (s *section) decodeField(d *decoder, n *yaml.Node, key string, f field) {
	at := join(key, f.key)
	v := child(n, f.key)
	switch {
	case v == nil:
		if f.need && s.has(f) && (s.kind == nil || *s.kind != "" || len(f.only) == 0) {
			d.report(n, at, "missing: wants %s", f.val.wants())
		}
	case !s.has(f):
		d.report(keyNode(n, f.key), at, "is not a key of %s, which has %s", s.noun+" "+*s.kind, strings.Join(s.keys(), ", "))
	default:
		d.given[at] = v
		f.val.decode(d, v, at)
	}
}

func keyNode(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i]
		}
	}
	return m
}

func (s *section) encode() *yaml.Node {
	n := mappingNode()
	for _, f := range s.fields {
		if !s.has(f) {
			continue
		}
		v := f.val.encode()
		if v == nil || f.omit && v.Kind == yaml.ScalarNode && (v.Value == "" || v.Value == "0") {
			continue
		}
		n.Content = append(n.Content, textNode(f.key), v)
	}
	return n
}

// optional is a section that a job may lack; nil then.
type optional[T any] struct {
	at     **T
	fresh  func() *T // with defaults
	fields func(*T) *section
}

func (o optional[T]) wants() string { return o.inner().wants() }

func (o optional[T]) decode(d *decoder, n *yaml.Node, key string) {
	*o.at = o.fresh()
	o.fields(*o.at).decode(d, n, key)
}

func (o optional[T]) encode() *yaml.Node {
	if s := o.present(); s != nil {
		return s.encode()
	}
	return nil
}

// present is the section of the job at hand, nil when it has none.
func (o optional[T]) present() *section {
	if *o.at == nil {
		return nil
	}
	return o.fields(*o.at)
}

// inner is the section, filled with defaults, for whoever reads the schema.
func (o optional[T]) inner() *section { return o.fields(o.fresh()) }
