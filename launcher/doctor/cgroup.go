package doctor

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// controlGroup is what this process's control group and those above it allow:
// the time of how many CPUs, and bytes of memory; 0 where there is no limit.
// root is in front of /proc and /sys.
func controlGroup(root string) (cpus float64, memory uint64) {
	text, err := os.ReadFile(filepath.Join(root, "/proc/self/cgroup"))
	if err != nil {
		return 0, 0
	}
	base := filepath.Join(root, "/sys/fs/cgroup")
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path; version 2 has no controllers
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			switch controller {
			case "":
				eachAbove(base, parts[2], func(dir string) {
					cpus = lesser(cpus, quotaV2(dir))
					memory = lesser(memory, whole(filepath.Join(dir, "memory.max")))
				})
			case "cpu":
				eachAbove(filepath.Join(base, "cpu"), parts[2], func(dir string) { cpus = lesser(cpus, quotaV1(dir)) })
			case "memory":
				eachAbove(filepath.Join(base, "memory"), parts[2], func(dir string) {
					if n := whole(filepath.Join(dir, "memory.limit_in_bytes")); n < math.MaxInt64/2 { // a huge number is version 1's "none"
						memory = lesser(memory, n)
					}
				})
			}
		}
	}
	return cpus, memory
}

// eachAbove visits a group's folder and those above it, down to base. In a
// container the path may be the host's; base is the container's own group then.
func eachAbove(base, path string, visit func(dir string)) {
	for dir := filepath.Join(base, filepath.Clean("/"+path)); len(dir) >= len(base); dir = filepath.Dir(dir) {
		visit(dir)
	}
}

func lesser[N float64 | uint64](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// quotaV2 reads "max 100000" or "150000 100000": microseconds of CPU in each
// period of so many.
func quotaV2(dir string) float64 {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	words := strings.Fields(string(text))
	if err != nil || len(words) != 2 {
		return 0
	}
	return ratio(words[0], words[1])
}

func quotaV1(dir string) float64 {
	quota, err1 := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
	period, err2 := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
	if err1 != nil || err2 != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) float64 {
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 { // -1 and "max": no limit
		return 0
	}
	return q / p
}

func whole(file string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}
