package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Found is a living process.
type Found struct {
	PID     int
	Command string
}

func (f Found) String() string { return fmt.Sprintf("%d (%s)", f.PID, f.Command) }

// Carriers lists living processes that have variable name in the environment
// they were executed with. Without /proc it finds none.
func Carriers(name string) []Found {
	return find(func(dir string) bool {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		return err == nil && (bytes.HasPrefix(environ, []byte(name+"=")) || bytes.Contains(environ, []byte("\x00"+name+"=")))
	})
}

// WithArgs lists living processes whose command line, joined by blanks, is
// text.
func WithArgs(text string) []Found {
	return find(func(dir string) bool { return commandLine(dir) == text })
}

func find(match func(dir string) bool) []Found {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []Found
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && match(dir) && living(dir) {
			found = append(found, Found{pid, commandLine(dir)})
		}
	}
	return found
}

func commandLine(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	return string(bytes.TrimRight(bytes.ReplaceAll(text, []byte{0}, []byte{' '}), " "))
}

func living(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	_, after, ok := strings.Cut(string(text), ") ")
	return ok && !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}
