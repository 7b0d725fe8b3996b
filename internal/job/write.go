package job

import (
	"bytes"
	"errors"
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
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(root), enc.Close()); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	if b.Len() > maxFile {
		// Aliases made a large job out of a small file.
		return fmt.Errorf("job: written out it has %d bytes, a job file may have %d", b.Len(), maxFile)
	}
	_, err := w.Write(b.Bytes())
	return err
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
