package store

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// table holds the keys and those who wait for them. Whoever changes a key
// wakes its waiters, so waiting costs no goroutine.
type table struct {
	mu      sync.Mutex
	values  map[string][]byte
	waiters map[string][]*waiter
}

// waiter waits until all its keys exist. done is called once, under the
// table's lock, with the value of the last key to appear; it must not block.
type waiter struct {
	keys []string // still missing
	done func(value []byte)
}

func newTable() *table {
	return &table{values: map[string][]byte{}, waiters: map[string][]*waiter{}}
}

// set stores a copy-free value: the caller gives it away.
func (t *table) set(key string, value []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(key, value)
}

func (t *table) put(key string, value []byte) {
	t.values[key] = value
	list, ok := t.waiters[key]
	if !ok {
		return
	}
	delete(t.waiters, key)
	for _, w := range list {
		w.keys = without(w.keys, key)
		if len(w.keys) == 0 {
			w.done(value)
		}
	}
}

// await calls w.done now or when the last of w.keys appears.
func (t *table) await(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last []byte
	missing := w.keys[:0]
	for _, k := range w.keys {
		if v, ok := t.values[k]; ok {
			last = v
		} else {
			missing = append(missing, k)
		}
	}
	w.keys = missing
	if len(missing) == 0 {
		w.done(last)
		return
	}
	for i, k := range missing {
		if !contains(missing[:i], k) {
			t.waiters[k] = append(t.waiters[k], w)
		}
	}
}

// forget drops waiters that nobody listens to any more.
func (t *table) forget(gone ...*waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range gone {
		for _, k := range w.keys {
			t.unlist(k, w)
		}
	}
}

func (t *table) unlist(key string, w *waiter) {
	list := t.waiters[key]
	kept := list[:0]
	for _, x := range list {
		if x != w {
			kept = append(kept, x)
		}
	}
	clear(list[len(kept):])
	if len(kept) == 0 {
		delete(t.waiters, key)
		return
	}
	t.waiters[key] = kept
}

func (t *table) add(key string, delta int64) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n int64
	if old, ok := t.values[key]; ok {
		var err error
		if n, err = strconv.ParseInt(string(old), 10, 64); err != nil {
			return 0, fmt.Errorf("add to %q: its value %.40q is no number", key, old)
		}
	}
	sum := n + delta
	if (delta > 0) != (sum > n) && delta != 0 {
		return 0, fmt.Errorf("add %d to %q: the sum leaves 64 bits", delta, key)
	}
	t.put(key, strconv.AppendInt(nil, sum, 10))
	return sum, nil
}

func (t *table) compareAndSet(key string, expected, desired []byte) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, exists := t.values[key]
	if exists != (expected != nil) || !bytes.Equal(old, expected) {
		return old, false
	}
	t.put(key, desired)
	return desired, true
}

func (t *table) remove(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.values[key]
	delete(t.values, key)
	return ok
}

var errNoKey = errors.New("a key is not empty")

func checkKey(key string) error {
	if key == "" {
		return errNoKey
	}
	if len(key) > MaxKey {
		return fmt.Errorf("key %.40q...: %d bytes are more than %d", key, len(key), MaxKey)
	}
	return nil
}

func checkValue(key string, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("value of %q: %d bytes are more than %d", key, len(value), MaxValue)
	}
	return checkKey(key)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// without returns list without s, which may be there more than once.
func without(list []string, s string) []string {
	kept := list[:0]
	for _, x := range list {
		if x != s {
			kept = append(kept, x)
		}
	}
	return kept
}
