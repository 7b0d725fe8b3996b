package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// lookup finds the file of a command as a shell does: a name with a slash is a
// path, relative to dir; another is searched for in the PATH of env. Errors
// have the shell's exit codes, 127 for not found and 126 for not executable.
func lookup(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) && dir != "" {
			path = filepath.Join(dir, path)
		}
		return path, executable(path)
	}
	var refused error
	for _, folder := range filepath.SplitList(valueOf(env, "PATH")) {
		if folder == "" {
			folder = "."
		}
		path := filepath.Join(folder, name)
		if !filepath.IsAbs(path) {
			path = "./" + path
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if exitcode.Of(err) == exitcode.NotExec && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", exitcode.With(fmt.Errorf("%s: command not found in PATH", show(name)), exitcode.NotFound)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return exitcode.With(fmt.Errorf("%s: permission denied", show(path)), exitcode.NotExec)
	case err != nil:
		return exitcode.With(fmt.Errorf("%s: no such file", show(path)), exitcode.NotFound)
	case info.IsDir():
		return exitcode.With(fmt.Errorf("%s: is a folder, not a program", show(path)), exitcode.NotExec)
	case info.Mode()&0o111 == 0:
		return exitcode.With(fmt.Errorf("%s: not executable (chmod +x, or name its interpreter)", show(path)), exitcode.NotExec)
	}
	return nil
}

// startError explains what exec said about a file that exists and looked
// executable.
func startError(path string, err error) error {
	code := exitcode.NotExec
	var why string
	switch {
	case errors.Is(err, syscall.ENOENT):
		why, code = "its interpreter or loader is missing", exitcode.NotFound
		if line := shebang(path); line != "" {
			why = "its interpreter is missing: " + line
		}
	case errors.Is(err, syscall.ENOEXEC):
		why = "not a program for this machine, and has no #! line"
	case errors.Is(err, syscall.EACCES):
		why = "permission denied (noexec file system?)"
	case errors.Is(err, syscall.E2BIG):
		why = "argument list and environment are too long"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return exitcode.With(fmt.Errorf("%s: the machine allows no more processes: %w (ulimit -u, memory)", show(path), bare(err)), exitcode.Machine)
	default:
		why = bare(err).Error()
	}
	return exitcode.With(fmt.Errorf("%s: cannot start: %s", show(path), why), code)
}

func bare(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func shebang(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _, err := bufio.NewReaderSize(f, 256).ReadLine()
	if err != nil || !bytes.HasPrefix(line, []byte("#!")) {
		return ""
	}
	return show(string(line))
}

// show keeps a name readable in a message: control characters are escaped.
func show(name string) string {
	q := fmt.Sprintf("%q", name)
	if q == `"`+name+`"` && name != "" {
		return name
	}
	return q
}

func valueOf(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}
