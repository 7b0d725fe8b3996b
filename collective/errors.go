package collective

import "errors"

// Errors that callers tell apart. They come wrapped in text that names the
// rank, the peer, the operation and its sequence number.
var (
	// ErrMismatch: two ranks ran different collectives where the same was due.
	ErrMismatch = errors.New("collective mismatch")
	// ErrPeerLost: the connection to another rank ended while it was needed.
	ErrPeerLost = errors.New("peer lost")
	// ErrTimeout: the operation passed its deadline.
	ErrTimeout = errors.New("collective timed out")
	// ErrClosed: the group was closed or aborted before the operation.
	ErrClosed = errors.New("process group closed")
	// ErrInvalid: the arguments of the call cannot be right on any rank.
	ErrInvalid = errors.New("invalid collective call")
)
