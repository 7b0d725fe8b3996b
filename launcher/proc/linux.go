//go:build linux

package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// rankAttr: a process group of its own, and KILL when the birth thread ends.
// Go's fork checks that the parent is still the same after the signal was set.
func rankAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// hasChildren asks the kernel without collecting anybody.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}

func renameSelf(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

func maxRSSBytes(ru *syscall.Rusage) int64 { return int64(ru.Maxrss) << 10 }

// procStat is what /proc/PID/stat says of a process.
type procStat struct {
	pid, parent, group int
	name               string
	state              byte
}

func (p procStat) dead() bool { return p.state == 'Z' || p.state == 'X' }

// processes lists all processes that can be seen. The per-thread "children"
// files would be cheaper but depend on the kernel's configuration.
func processes() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var all []procStat
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readStat(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func readStat(pid int) (procStat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, false
	}
	return parseStat(string(text))
}

// parseStat reads "pid (name) state ppid pgrp ..."; the name may hold anything,
// closing brackets included.
func parseStat(text string) (procStat, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return procStat{}, false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 3 || len(fields[0]) != 1 {
		return procStat{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, err2 := strconv.Atoi(fields[1])
	group, err3 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return procStat{}, false
	}
	return procStat{pid: pid, parent: parent, group: group, name: text[open+1 : end], state: fields[0][0]}, true
}

// descendants lists living processes that are in one of groups, or descend from
// self and either carry mark or have an ancestor that does; with all, every
// descendant of self but spare.
func descendants(self int, groups map[int]bool, mark string, all bool, spare int) []Leftover {
	procs := processes()
	children := make(map[int][]procStat, len(procs))
	for _, p := range procs {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []Leftover
	known := map[int]bool{self: true}
	add := func(p procStat) {
		if p.dead() || known[p.pid] {
			return
		}
		known[p.pid] = true
		l := Leftover{PID: p.pid, Name: p.name}
		if groups[p.group] {
			l.Group = p.group
		}
		found = append(found, l)
	}
	var walk func(parent int, ours bool)
	walk = func(parent int, ours bool) {
		for _, p := range children[parent] {
			if p.pid == spare || p.pid == parent {
				continue
			}
			mine := ours || groups[p.group] || (!p.dead() && carries(p.pid, mark))
			if mine {
				add(p)
			}
			walk(p.pid, mine)
		}
	}
	walk(self, all)
	for _, p := range procs {
		if groups[p.group] && p.pid != self {
			add(p)
		}
	}
	return found
}

// zombieChildren lists ended children of self that nobody has collected.
func zombieChildren(self int) []int {
	var pids []int
	for _, p := range processes() {
		if p.parent == self && p.dead() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// carriers lists living processes whose environment had mark when they were
// executed. The mark is random, so it cannot be a stranger's.
func carriers(mark string) []int {
	var pids []int
	for _, p := range processes() {
		if !p.dead() && p.pid != os.Getpid() && carries(p.pid, mark) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func carries(pid int, mark string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return bytes.Contains(environ, []byte(mark+"="))
}

// Stuck says what the kernel knows of a process that does not die: its state
// letter and the kernel function it waits in.
func Stuck(pid int) string {
	p, ok := readStat(pid)
	if !ok {
		return "gone"
	}
	out := "state " + string(p.state)
	if wchan, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && len(wchan) > 1 {
		out += ", waiting in " + string(wchan)
	}
	return out
}
