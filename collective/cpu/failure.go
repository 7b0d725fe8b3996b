package cpu

import (
	"errors"
	"fmt"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// maxFarewell bounds the text of a farewell, in bytes.
const maxFarewell = 2048

// class says what broke a group; the numbers are part of the wire format.
type class uint8

const (
	classClosed class = iota + 1 // a rank left in good order
	classAborted
	classLost
	classMismatch
	classTimeout
	classInvalid
)

func (c class) sentinel() error {
	switch c {
	case classMismatch:
		return collective.ErrMismatch
	case classTimeout:
		return collective.ErrTimeout
	}
	return collective.ErrPeerLost
}

// failure is what broke the group. text names ranks and operations and reads
// the same on every rank; the rest of the message is added by explain.
type failure struct {
	class  class
	rank   int    // at fault, as far as this rank knows
	text   string // "lost rank 2: ..."
	source int    // the rank that told us; -1: seen here
	cause  error  // of this rank's own making: Abort's argument, an invalid call
}

func (f *failure) Error() string { return f.text }

// explain makes the error of one Work out of the group's failure.
func (f *failure) explain(where string) error {
	told := ""
	if f.source >= 0 && f.source != f.rank {
		told = fmt.Sprintf(" (reported by rank %d)", f.source)
	}
	switch {
	case f.class == classInvalid && f.cause != nil:
		return fmt.Errorf("%s: %w", where, f.cause)
	case f.cause != nil:
		return fmt.Errorf("%s: aborted: %w", where, f.cause)
	}
	err := fmt.Errorf("%s: %w: %s%s", where, f.class.sentinel(), f.text, told)
	if f.class == classTimeout {
		return exitcode.With(err, exitcode.Hang)
	}
	return err
}

// later is the error of an operation that was enqueued after the failure.
func (f *failure) later(where string) error {
	if f.cause != nil && f.class == classAborted {
		return fmt.Errorf("%s: %w: %w", where, collective.ErrClosed, f.cause)
	}
	return f.explain(where)
}

func lost(rank int, cause error) *failure {
	return &failure{class: classLost, rank: rank, source: -1, text: fmt.Sprintf("lost rank %d: %v", rank, cause)}
}

func aborted(rank int, cause error) *failure {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	return &failure{class: classAborted, rank: rank, source: -1, cause: cause, text: fmt.Sprintf("rank %d aborted: %v", rank, cause)}
}

func invalid(rank int, o *operation) *failure {
	return &failure{
		class: classInvalid, rank: rank, source: -1, cause: o.invalid,
		text: fmt.Sprintf("rank %d aborted: %v: %v", rank, o.spec, o.invalid),
	}
}

func mismatch(rank int, mine spec, peer int, theirs spec) *failure {
	text := fmt.Sprintf("rank %d runs %v, but rank %d runs %v", rank, mine, peer, theirs)
	return &failure{class: classMismatch, rank: peer, source: -1, text: text}
}

// told is the failure that a peer's farewell reports.
func told(peer int, h header, text string) *failure {
	f := &failure{class: class(h.b), rank: int(h.a), source: peer, text: text}
	if f.class == classClosed {
		f.class, f.rank = classLost, peer
		f.text = fmt.Sprintf("rank %d has left: it closed its group after operation #%d", peer, h.spec.seq)
	}
	return f
}
