package metrics

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Item is one line of a banner; an item without a value begins a group. Control
// characters, which a path may have, are shown escaped.
type Item struct{ Key, Value string }

// Banner writes items as aligned lines, in one write.
func Banner(w io.Writer, items []Item) error {
	width := 0
	for _, it := range items {
		if it.Value != "" {
			width = max(width, utf8.RuneCountInString(it.Key))
		}
	}
	var b strings.Builder
	for _, it := range items {
		if it.Value == "" {
			fmt.Fprintf(&b, "%s\n", onOneLine(it.Key))
			continue
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, it.Key, onOneLine(it.Value))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// onOneLine keeps text from breaking the banner or steering a terminal.
func onOneLine(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}
