package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// notYet are the values that are part of the schema and will keep their
// meaning, but that this version cannot run. Whoever builds one takes it out of
// this list.
func notYet(key string) []string {
	switch key {
	case "precision":
		return []string{"bf16", "fp16"}
	case "model.type":
		return []string{"bert", "resnet"}
	case "data.type":
		return []string{"image_folder", "npy"}
	case "ddp.gradient_compression":
		return []string{"fp16", "bf16"}
	case "debug.collectives":
		return []string{"summary", "detail"}
	}
	return nil
}

// unsupportedSpan says why a time span cannot be had; empty when it can.
func unsupportedSpan(key string, v time.Duration) string {
	if key != "debug.barrier_timeout" || v == 0 {
		return ""
	}
	return "monitored barriers are part of the schema but not available in this version (leave it at 0; --timeout bounds each collective)"
}

// unsupported says why a value of the schema cannot be had; empty when it can.
func unsupported(key, value string, words []string) string {
	later := notYet(key)
	if !slices.Contains(later, value) {
		return ""
	}
	available := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(later, w) })
	return fmt.Sprintf("%s is part of the schema but not available in this version (available: %s)", value, strings.Join(available, ", "))
}
