package store

import "errors"

// Errors that callers tell apart.
var (
	// ErrClosed: the store, or the connection to it, has ended.
	ErrClosed = errors.New("store closed")
	// ErrNotStore: something answers at the address, but it is no ddprun store.
	ErrNotStore = errors.New("answered but is not a ddprun store")
	// ErrNotAdmitted: the store refused the token, or could not prove its own.
	ErrNotAdmitted = errors.New("not admitted")
)
