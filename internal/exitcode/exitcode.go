// Package exitcode has the exit status of each class of failure. A cluster
// controller reads nothing else, so the numbers never change.
//
// Users: cmd (the only caller of os.Exit), launcher (verdict), worker.
package exitcode

import "errors"

// Exit codes. A rank's own code (and 128+n for a signal, 127 for a program
// that is not found, 126 for one that cannot be executed) passes through.
const (
	OK         = 0  // all ranks ended well
	Failure    = 1  // an error of no other class
	Usage      = 2  // bad flag, variable or job file; nothing was started
	Data       = 65 // a data file was refused
	Machine    = 69 // the machine is unfit: address, device, library, folder
	Checkpoint = 74 // a checkpoint was refused or could not be written
	Rendezvous = 75 // the nodes did not gather
	Hang       = 76 // a collective or barrier passed its deadline
	NotExec    = 126
	NotFound   = 127
	SignalBase = 128
)

// Coder is an error that knows the exit code of its class.
type Coder interface {
	error
	ExitCode() int
}

type coded struct {
	error
	code int
}

func (c coded) ExitCode() int { return c.code }
func (c coded) Unwrap() error { return c.error }

// With gives err an exit code; nil stays nil.
func With(err error, code int) error {
	if err == nil {
		return nil
	}
	return coded{err, code}
}

// Of returns the exit code of err: OK for nil, the code of the outermost
// Coder in its chain, Failure when there is none.
func Of(err error) int {
	if err == nil {
		return OK
	}
	var c Coder
	if errors.As(err, &c) {
		return c.ExitCode()
	}
	return Failure
}
