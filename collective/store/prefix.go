package store

import "context"

// Prefix returns a view of s in which every key is preceded by prefix and a
// slash. Run id and attempt go there, so that a key of an earlier attempt is
// never read.
func Prefix(s Store, prefix string) Store {
	return prefixed{s, prefix + "/"}
}

type prefixed struct {
	Store
	prefix string
}

func (p prefixed) Set(ctx context.Context, key string, value []byte) error {
	return p.Store.Set(ctx, p.prefix+key, value)
}

func (p prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	return p.Store.Get(ctx, p.prefix+key)
}

func (p prefixed) Wait(ctx context.Context, keys ...string) error {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = p.prefix + k
	}
	return p.Store.Wait(ctx, full...)
}

func (p prefixed) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return p.Store.Add(ctx, p.prefix+key, delta)
}

func (p prefixed) CompareAndSet(ctx context.Context, key string, expected, desired []byte) ([]byte, bool, error) {
	return p.Store.CompareAndSet(ctx, p.prefix+key, expected, desired)
}

func (p prefixed) Delete(ctx context.Context, key string) (bool, error) {
	return p.Store.Delete(ctx, p.prefix+key)
}
