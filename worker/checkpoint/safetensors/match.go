package safetensors

import (
	"fmt"
	"slices"
)

// Match checks, before any weight is touched, that the file has every tensor
// of want with the same shape, and, unless extra is true, no other. Data and
// DType of want are not looked at. The error names the first tensor that is
// wrong, with both shapes.
func (f *File) Match(want []Tensor, extra bool) error {
	known := make(map[string]bool, len(want))
	for _, t := range want {
		known[t.Name] = true
		info, ok := f.Info(t.Name)
		if !ok {
			return refuse(f.path, fmt.Errorf("of another model: tensor %q %v is missing (the file has %d tensors, the model %d)", t.Name, t.Shape, len(f.index), len(want)))
		}
		if !slices.Equal(info.Shape, t.Shape) {
			return refuse(f.path, fmt.Errorf("of another model: tensor %q has shape %v, the model wants %v", t.Name, info.Shape, t.Shape))
		}
	}
	if extra {
		return nil
	}
	for _, e := range f.header.entries {
		if !known[e.name] {
			return refuse(f.path, fmt.Errorf("of another model: the model has no tensor %q %v (the file has %d tensors, the model %d)", e.name, e.info.Shape, len(f.index), len(want)))
		}
	}
	return nil
}
