package allocator_test

import (
	"strings"
	"testing"

	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
)

func TestSummary(t *testing.T) {
	b := open(t, 1<<40, allocator.Options{})
	b.alloc(1000, 1)
	b.alloc(3<<30, 1)
	lines := strings.Split(strings.TrimSuffix(b.Summary(false), "\n"), "\n")
	for _, l := range lines {
		if len(l) != 77 {
			t.Errorf("a line of %d characters, want 77: %q", len(l), l)
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"memory summary, device cuda:0",
		"| Allocated memory      |   3072 MiB |   3072 MiB |   3072 MiB |      0 B   |",
		"|       from large pool |   3072 MiB |",
		"|       from small pool |      0 MiB |",
		"| Allocations           |       2    |       2    |       2    |       0    |",
		"| Oversize GPU segments |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if short := b.Summary(true); strings.Contains(short, "pool") {
		t.Errorf("the abbreviated summary has rows of the pools:\n%s", short)
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int]string{0: "0 B", 1023: "1023 B", 1536: "1.50 KiB", 20 * mib: "20.00 MiB", 3 << 29: "1.50 GiB", 1 << 50: "1024.00 TiB"} {
		if got := allocator.Size(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := allocator.Parse("max_split_size_mb:128, garbage_collection_threshold:0.8,memory_limit_mb:1000,roundup_power2_divisions:4")
	if want := (allocator.Options{MaxSplit: 128 * mib, GCThreshold: 0.8, Limit: 1000 * mib, RoundDivisions: 4}); err != nil || o != want {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := allocator.Parse(" "); err != nil || o != (allocator.Options{}) {
		t.Errorf("nothing: %+v, %v", o, err)
	}
	for _, bad := range []string{
		"max_split_size_mb", "max_split_size_mb:x", "max_split_size_mb:20", "expandable_segments:True", "memory_limit_mb:0",
		"garbage_collection_threshold:0.5", "garbage_collection_threshold:1.5,memory_limit_mb:9", "roundup_power2_divisions:3", "memory_limit_mb:9999999999999",
	} {
		if _, err := allocator.Parse(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("max_split_size_mb:128,memory_limit_mb:10")
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := allocator.Parse(text); err == nil {
			if _, err := allocator.New(newFake(t, 1), o); err != nil {
				t.Errorf("Parse accepts %q, New does not: %v", text, err)
			}
		}
	})
}
