package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// identity lists what a resumed run has to have in common with the run that
// made the checkpoint: the model, the samples and their order, and the rule
// whose state was saved. How long, how fast and where to is free.
func identity(key string) bool {
	for _, free := range []string{"model.init", "model.dropout", "data.eval_path", "data.eval_rows", "data.idx.eval_images", "data.idx.eval_labels", "data.synthetic.eval_samples"} {
		if key == free || strings.HasPrefix(key, free+".") {
			return false
		}
	}
	for _, part := range []string{"model", "data", "sampler", "loss", "optimizer.type", "optimizer.decay", "program.command"} {
		if key == part || strings.HasPrefix(key, part+".") {
			return true
		}
	}
	return false
}

// setting is one key of a job with its value as text.
type setting struct{ key, value string }

// essence is the identity settings of a job, in the order of the schema. Files
// count by their base names, so that a run can move to another machine.
func (j *Job) essence() []setting {
	var all []setting
	flatten(j.node(), "", &all)
	all = slices.DeleteFunc(all, func(s setting) bool { return !identity(s.key) })
	for i, s := range all {
		if s.key == "data.path" || strings.HasPrefix(s.key, "data.idx.") {
			all[i].value = filepath.Base(s.value)
		}
	}
	return all
}

func flatten(n *yaml.Node, key string, all *[]setting) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			flatten(n.Content[i+1], join(key, n.Content[i].Value), all)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			flatten(item, join(key, i), all)
		}
	default:
		*all = append(*all, setting{key, n.Value})
	}
}

// Digest is a short text that changes when the job is no longer one that a
// checkpoint of the old job could go on with; see Diff.
func (j *Job) Digest() string {
	h := sha256.New()
	for _, s := range j.essence() {
		fmt.Fprintf(h, "%s=%q\n", s.key, s.value)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff names the keys that make the digests of two jobs differ, each as
// "key: old value -> new value". It is empty exactly when the digests are equal.
func Diff(before, after *Job) []string {
	a, b := before.essence(), after.essence()
	values := map[string]string{}
	for _, s := range a {
		values[s.key] = s.value
	}
	var diff []string
	for _, s := range b {
		old, had := values[s.key]
		switch {
		case !had:
			diff = append(diff, fmt.Sprintf("%s: not set -> %s", s.key, s.value))
		case old != s.value:
			diff = append(diff, fmt.Sprintf("%s: %s -> %s", s.key, old, s.value))
		}
		delete(values, s.key)
	}
	for _, s := range a {
		if old, gone := values[s.key]; gone {
			diff = append(diff, fmt.Sprintf("%s: %s -> not set", s.key, old))
		}
	}
	return diff
}
