package allocator

import (
	"fmt"
	"strings"
)

// summaryWidth is the width of the table between its outer bars.
const summaryWidth = 75

// metric is one group of rows of the summary.
type metric struct {
	name   string
	family Family
	pools  bool // has rows for the two pools
	format func(value, scale int) string
}

func (s *Stats) metrics() []metric {
	oversize := func(c Counter) Family { return Family{All: c} }
	return []metric{
		{"Allocated memory", s.AllocatedBytes, true, sizeCell},
		{"Active memory", s.ActiveBytes, true, sizeCell},
		{"Requested memory", s.RequestedBytes, true, sizeCell},
		{"GPU reserved memory", s.ReservedBytes, true, sizeCell},
		{"Non-releasable memory", s.InactiveSplitBytes, true, sizeCell},
		{"Allocations", s.Allocations, true, countCell},
		{"Active allocs", s.Active, true, countCell},
		{"GPU reserved segments", s.Segments, true, countCell},
		{"Non-releasable allocs", s.InactiveSplit, true, countCell},
		{"Oversize allocations", oversize(s.OversizeAllocations), false, countCell},
		{"Oversize GPU segments", oversize(s.OversizeSegments), false, countCell},
	}
}

// Summary is the statistics as a table, row for row that of
// torch.cuda.memory_summary; abbreviated leaves out the rows of the two pools.
func (a *Allocator) Summary(abbreviated bool) string {
	s := a.Stats()
	bar, rule := strings.Repeat("=", summaryWidth), strings.Repeat("-", summaryWidth)
	lines := []string{
		bar,
		fmt.Sprintf(" %16s ddprun CUDA memory summary, device %-22s", "", a.opt.Device),
		rule,
		fmt.Sprintf("  %9s CUDA OOMs: %-12d | %6s driver retries: %-10d    ", "", s.OOMs, "", s.Retries),
		bar,
		"        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
	}
	for _, m := range s.metrics() {
		lines = append(lines, rule, m.row(m.name, m.family[All]))
		if m.pools && !abbreviated {
			lines = append(lines, m.row("      from large pool", m.family[LargePool]), m.row("      from small pool", m.family[SmallPool]))
		}
	}
	lines = append(lines, bar)
	return "|" + strings.Join(lines, "|\n|") + "|\n"
}

// row is a line of the table; rows of a group share the unit that suits the
// group's first.
func (m metric) row(name string, c Counter) string {
	all := m.family[All]
	return fmt.Sprintf(" %-21s | %s | %s | %s | %s ", name,
		m.format(c.Current, all.Current), m.format(c.Peak, all.Peak), m.format(c.Allocated, all.Allocated), m.format(c.Freed, all.Freed))
}

// sizeCell writes a size in the unit in which scale has at most six digits.
func sizeCell(value, scale int) string {
	units := []string{"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for scale >= 768*kib && len(units) > 1 {
		value, scale, units = value/kib, scale/kib, units[1:]
	}
	return fmt.Sprintf("%6d %s", value, units[0])
}

func countCell(value, scale int) string {
	units := []string{" ", "K", "M"}
	for scale >= 750_000 && len(units) > 1 {
		value, scale, units = value/1000, scale/1000, units[1:]
	}
	return fmt.Sprintf("%7d %s ", value, units[0])
}
