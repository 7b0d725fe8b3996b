package probe

import (
	"bytes"
	"sync"
)

// bounded keeps the beginning of what is written to it. It may be read while a
// copy that could not be killed still writes.
type bounded struct {
	limit int

	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p[:min(len(p), b.limit-b.buf.Len())])
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
