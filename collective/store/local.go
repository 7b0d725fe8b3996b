package store

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// local is the store of the server's own process.
type local struct {
	table  *table
	closed <-chan struct{}
}

var _ Store = (*local)(nil)

func (l *local) ready(ctx context.Context, what, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %q: %w", what, key, err)
	}
	select {
	case <-l.closed:
		return fmt.Errorf("%s %q: %w", what, key, ErrClosed)
	default:
		return nil
	}
}

func (l *local) Set(ctx context.Context, key string, value []byte) error {
	if err := checkValue(key, value); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	if err := l.ready(ctx, "set", key); err != nil {
		return err
	}
	l.table.set(key, bytes.Clone(value))
	return nil
}

func (l *local) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := l.await(ctx, "get", key)
	return bytes.Clone(value), err
}

func (l *local) Wait(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := l.await(ctx, "wait for", keys...)
	return err
}

func (l *local) await(ctx context.Context, what string, keys ...string) ([]byte, error) {
	if err := checkKeys(keys); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := l.ready(ctx, what, keys[0]); err != nil {
		return nil, err
	}
	found := make(chan []byte, 1)
	w := &waiter{keys: append([]string(nil), keys...), done: func(v []byte) { found <- v }}
	l.table.await(w)
	select {
	case v := <-found:
		return v, nil
	case <-ctx.Done():
		l.table.forget(w)
		return nil, fmt.Errorf("%s %s: %w", what, listed(keys), ctx.Err())
	case <-l.closed:
		l.table.forget(w)
		return nil, fmt.Errorf("%s %s: %w", what, listed(keys), ErrClosed)
	}
}

func (l *local) Add(ctx context.Context, key string, delta int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, fmt.Errorf("add: %w", err)
	}
	if err := l.ready(ctx, "add", key); err != nil {
		return 0, err
	}
	return l.table.add(key, delta)
}

func (l *local) CompareAndSet(ctx context.Context, key string, expected, desired []byte) ([]byte, bool, error) {
	if err := checkValue(key, desired); err != nil {
		return nil, false, fmt.Errorf("compare-and-set: %w", err)
	}
	if err := l.ready(ctx, "compare-and-set", key); err != nil {
		return nil, false, err
	}
	value, ok := l.table.compareAndSet(key, expected, bytes.Clone(desired))
	return bytes.Clone(value), ok, nil
}

func (l *local) Delete(ctx context.Context, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, fmt.Errorf("delete: %w", err)
	}
	if err := l.ready(ctx, "delete", key); err != nil {
		return false, err
	}
	return l.table.remove(key), nil
}

func checkKeys(keys []string) error {
	if len(keys) > maxKeys {
		return fmt.Errorf("%d keys are more than %d", len(keys), maxKeys)
	}
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return err
		}
	}
	return nil
}

// listed shows keys in a message, a few of them.
func listed(keys []string) string {
	const few = 4
	if len(keys) == 1 {
		return strconv.Quote(keys[0])
	}
	if len(keys) <= few {
		return fmt.Sprintf("%q", keys)
	}
	return fmt.Sprintf("%q and %d more", keys[:few], len(keys)-few)
}
