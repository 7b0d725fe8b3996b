package metrics

import (
	"fmt"
	"io"
	"strings"
)

// Item is one line of a banner; an item without a value begins a group.
type Item struct{ Key, Value string }

// Banner writes items as aligned lines, in one write.
func Banner(w io.Writer, items []Item) error {
	width := 0
	for _, it := range items {
		if it.Value != "" {
			width = max(width, len(it.Key))
		}
	}
	var b strings.Builder
	for _, it := range items {
		if it.Value == "" {
			fmt.Fprintf(&b, "%s\n", it.Key)
			continue
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, it.Key, it.Value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
