//go:build unix && !linux

package proc

import (
	"syscall"
)

// Elsewhere than on Linux there is no parent-death signal, no subreaper and no
// /proc: only process groups are swept, by the launcher and by its guard.

func rankAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func becomeSubreaper() error { return nil }

func hasChildren() bool { return true }

func renameSelf(string) {}

func maxRSSBytes(ru *syscall.Rusage) int64 { return int64(ru.Maxrss) }

func descendants(_ int, groups map[int]bool, _ string, _ bool, _ int) []Leftover {
	var found []Leftover
	for group := range groups {
		if syscall.Kill(-group, 0) == nil {
			found = append(found, Leftover{PID: group, Group: group})
		}
	}
	return found
}

func zombieChildren(int) []int { return nil }

func carriers(string) []int { return nil }

// Stuck says what the system knows of a process that does not die.
func Stuck(int) string { return "state unknown" }
