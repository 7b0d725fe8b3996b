package job

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The key tables of docs/job-file.md stand between these two lines.
const (
	tablesBegin = "<!-- keys: written by `go test ./internal/job -update` -->\n"
	tablesEnd   = "<!-- /keys -->\n"
)

// TestDocumentation keeps the tables of docs/job-file.md equal to the schema.
func TestDocumentation(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "job-file.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tablesBegin)
	old, after, end := strings.Cut(rest, tablesEnd)
	if !found || !end {
		t.Fatalf("%s: the marks around the key tables are missing", page)
	}
	tables := keyTables()
	if *update {
		text := before + tablesBegin + tables + tablesEnd + after
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != tables {
		t.Errorf("%s does not have the schema's keys; run go test ./internal/job -update", page)
	}
}

// TestDocumentedJobs loads the job files that the page shows.
func TestDocumentedJobs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "job-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page shows no job file")
	}
	for _, b := range blocks {
		job, _, _ := strings.Cut(b, "```")
		mustLoad(t, job)
	}
}

func keyTables() string {
	var b bytes.Buffer
	j := newJob()
	b.WriteString("\n### The file\n\n")
	kind := ""
	root := jobSection(j, kind)
	table(&b, root)
	sections(&b, "", root)
	fmt.Fprintf(&b, "### An item of model.layers\n\n")
	table(&b, layerSection(&Layer{}))
	return b.String()
}

// sections writes a table for each section below s.
func sections(b *bytes.Buffer, prefix string, s *section) {
	for _, f := range s.fields {
		inner, ok := innerOf(f.val)
		if !ok {
			continue
		}
		at := join(prefix, f.key)
		fmt.Fprintf(b, "### %s\n\n", at)
		table(b, inner)
		sections(b, at, inner)
	}
}

func innerOf(v value) (*section, bool) {
	switch v := v.(type) {
	case *section:
		return v, true
	case interface{ inner() *section }:
		return v.inner(), true
	}
	return nil, false
}

func table(b *bytes.Buffer, s *section) {
	b.WriteString("| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range s.fields {
		doc := f.doc
		if len(f.only) > 0 && f.only[0] != training && f.only[0] != launching {
			doc = "*" + strings.Join(f.only, ", ") + ":* " + doc
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, cell(kindOfValue(f.val)), cell(defaultOf(f)), cell(doc))
	}
	b.WriteString("\n")
}

func kindOfValue(v value) string {
	if _, ok := innerOf(v); ok {
		return "section"
	}
	if l, ok := v.(layerList); ok {
		l.model = &Model{Type: "sequential"}
		return "a list of layers, or " + from1(nil).wants()
	}
	return strings.TrimPrefix(v.wants(), "one of ")
}

func defaultOf(f field) string {
	switch {
	case f.def != "":
		return f.def
	case f.need:
		return "required"
	case f.omit:
		return ""
	}
	if _, ok := innerOf(f.val); ok {
		return ""
	}
	if t, ok := f.val.(truth); ok && f.key == "tie_head" {
		*t.at = true // the type of the model decides
	}
	n := f.val.encode()
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	if n.Value == "" {
		return `""`
	}
	return n.Value
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
