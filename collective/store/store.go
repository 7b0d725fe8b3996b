package store

import "context"

// Store is the small key-value service through which the ranks of a job meet.
// Keys are free text; values are bytes. All methods are safe for concurrent
// use and return ctx's error when it ends first.
type Store interface {
	// Set gives key a value and wakes its waiters.
	Set(ctx context.Context, key string, value []byte) error
	// Get returns the value of key, waiting until it exists.
	Get(ctx context.Context, key string) ([]byte, error)
	// Wait returns when all keys exist.
	Wait(ctx context.Context, keys ...string) error
	// Add adds delta to the decimal number at key (missing: 0) and returns the
	// sum.
	Add(ctx context.Context, key string, delta int64) (int64, error)
	// CompareAndSet sets key to desired if its value is expected (nil
	// expected: if it does not exist). It returns the value after the call and
	// whether it was set.
	CompareAndSet(ctx context.Context, key string, expected, desired []byte) ([]byte, bool, error)
	// Delete removes key and says whether it was there.
	Delete(ctx context.Context, key string) (bool, error)
}
