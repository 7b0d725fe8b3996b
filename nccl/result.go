package nccl

import (
	"errors"
	"fmt"
)

// Result is NCCL's result code. Codes other than Success are errors.
type Result int

// Result codes (ncclResult_t).
const (
	Success            Result = 0
	UnhandledCUDAError Result = 1
	SystemError        Result = 2
	InternalError      Result = 3
	InvalidArgument    Result = 4
	InvalidUsage       Result = 5
	RemoteError        Result = 6
	InProgress         Result = 7
	Timeout            Result = 8 // from 2.30 on
)

func (r Result) Error() string {
	switch r {
	case Success:
		return "success"
	case UnhandledCUDAError:
		return "unhandled cuda error"
	case SystemError:
		return "system error"
	case InternalError:
		return "internal error"
	case InvalidArgument:
		return "invalid argument"
	case InvalidUsage:
		return "invalid usage"
	case RemoteError:
		return "remote process exited or there was a network error"
	case InProgress:
		return "in progress"
	case Timeout:
		return "timeout"
	}
	return fmt.Sprintf("nccl result %d", int(r))
}

// CallError is the failure of one call of the library. It unwraps to its
// Result.
type CallError struct {
	Call   string // "ncclAllReduce"
	Result Result
	Detail string // NCCL's own last-error text, may be empty
}

func (e *CallError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %v", e.Call, e.Result)
	}
	return fmt.Sprintf("%s: %v: %s", e.Call, e.Result, e.Detail)
}

func (e *CallError) Unwrap() error { return e.Result }

// Errors that callers tell apart.
var (
	// ErrNotFound: no usable libnccl.so.2; the text lists what was tried.
	ErrNotFound = errors.New("no usable libnccl.so.2")
	// ErrUnsupported: the library that was opened lacks the function; the text
	// names the version that has it.
	ErrUnsupported = errors.New("not in this NCCL")
	// ErrAborted: the communicator was aborted, or destroyed, before or during
	// the call.
	ErrAborted = errors.New("nccl communicator aborted")
)

// unsupported is the error of a function that the library lacks.
func unsupported(l *Library, call string, since Version) error {
	return fmt.Errorf("%s: %w: it needs NCCL %v or later, %s is %v", call, ErrUnsupported, since, l.path, l.version)
}
