package nccl

import (
	"context"
	"fmt"
	"runtime"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// Library is an opened libnccl. It stays loaded until the process ends.
type Library struct {
	api     api
	path    string
	version Version
}

// Open opens libnccl.so.2: the one that DDPRUN_NCCL names (a file or its
// folder), else the first usable one of the loader's path, CUDA's folders, and
// nvidia/nccl/lib in the site-packages of the environment's Pythons. The error
// (ErrNotFound, exit class Machine) lists what was looked for where, with what
// was wrong with each.
func Open() (*Library, error) {
	l, err := systemSearch().open()
	return l, exitcode.With(err, exitcode.Machine)
}

func (s search) open() (*Library, error) {
	found, without := s.places()
	var tried []error
	for _, p := range found {
		l, err := openAt(p.path)
		if err == nil {
			return l, nil
		}
		tried = append(tried, fmt.Errorf("%s (from %s): %w", p.path, p.from, err))
	}
	return nil, notFound(tried, without)
}

func openAt(path string) (*Library, error) {
	a, err := openAPI(path)
	if err != nil {
		return nil, err
	}
	v, r := a.getVersion()
	if r != Success {
		return nil, &CallError{Call: "ncclGetVersion", Result: r}
	}
	if v < Oldest {
		return nil, fmt.Errorf("it is NCCL %v, too old", v)
	}
	return &Library{api: a, path: path, version: v}, nil
}

// Version is the version of the library.
func (l *Library) Version() Version { return l.version }

// Path is what was opened: a file, or the bare name that the loader resolved.
func (l *Library) Path() string { return l.path }

// check makes an error of a failed call. NCCL keeps one last-error text for
// all, so it is read at once.
func (l *Library) check(call string, r Result, c *rawComm) error {
	if r == Success {
		return nil
	}
	return &CallError{Call: call, Result: r, Detail: l.detail(r, c)}
}

func (l *Library) detail(r Result, c *rawComm) string {
	if text := firstLine(l.api.lastError(c)); text != "" {
		return text
	}
	if text := l.api.errorString(r); text != r.Error() {
		return text
	}
	return ""
}

// UniqueID draws the id of a new communicator. The process that draws it
// listens for the others (on the interface that NCCL_SOCKET_IFNAME or
// NCCL_COMM_ID says), so it must be one of the ranks.
func (l *Library) UniqueID() (UniqueID, error) {
	var id UniqueID
	return id, l.check("ncclGetUniqueId", l.api.getUniqueID(&id), nil)
}

// Group runs f with all of NCCL's calls in it fused into one: a set of sends
// and receives that must make progress together, or several collectives in one
// launch. comms are the communicators that f uses; it returns when the work of
// all is enqueued. f must not switch OS threads or wait for anything.
func (l *Library) Group(ctx context.Context, f func() error, comms ...*Comm) error {
	runtime.LockOSThread() // groups belong to the OS thread
	defer runtime.UnlockOSThread()
	if err := l.check("ncclGroupStart", l.api.groupStart(), nil); err != nil {
		return err
	}
	err := f()
	r := l.api.groupEnd()
	if err == nil && r != InProgress {
		err = l.check("ncclGroupEnd", r, nil)
	}
	for _, c := range comms {
		if e := c.call(ctx, "ncclGroupEnd", func() Result { return InProgress }); err == nil {
			err = e
		}
	}
	return err
}

// MemAlloc allocates device memory that NCCL can use without copying once it
// is registered; NCCL 2.19.
func (l *Library) MemAlloc(bytes int) (uintptr, error) {
	if !l.api.hasMemAlloc() {
		return 0, unsupported(l, "ncclMemAlloc", 21900)
	}
	at, r := l.api.memAlloc(bytes)
	return at, l.check("ncclMemAlloc", r, nil)
}

// MemFree frees memory of MemAlloc.
func (l *Library) MemFree(at uintptr) error {
	if !l.api.hasMemAlloc() {
		return unsupported(l, "ncclMemFree", 21900)
	}
	return l.check("ncclMemFree", l.api.memFree(at), nil)
}
