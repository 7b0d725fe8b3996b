package job

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Write writes the job with all its defaults. Load of what it writes gives an
// equal Job, wherever the file lies.
func (j *Job) Write(w io.Writer) error {
	root := j.node()
	if bad := notText(root); bad != "" {
		return fmt.Errorf("job: %q is not UTF-8 text and cannot be written to a job file", bad)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	return enc.Close()
}

// WriteFile is Write to a file, which it replaces.
func (j *Job) WriteFile(path string) error {
	var b bytes.Buffer
	if err := j.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func (j *Job) node() *yaml.Node {
	kind := training
	if j.Program != nil {
		kind = launching
	}
	return jobSection(j, kind).encode()
}

// notText finds a scalar that YAML has no form for.
func notText(n *yaml.Node) string {
	if !utf8.ValidString(n.Value) {
		return n.Value
	}
	for _, c := range n.Content {
		if bad := notText(c); bad != "" {
			return bad
		}
	}
	return ""
}
