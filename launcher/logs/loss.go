package logs

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Loss is output that could not be written.
type Loss struct {
	Name  string // file, or "console (stdout)"
	Bytes int64
	Err   error // why, the first time
}

// ledger counts losses and reports each place once: a moment after its first
// loss, so that the number means something, or at the end.
type ledger struct {
	warn func([]Loss)

	mu       sync.Mutex
	losses   []Loss
	reported int // losses[:reported] were passed to warn
	timer    *time.Timer
	closed   bool
}

const warnDelay = time.Second

func newLedger(warn func([]Loss)) *ledger { return &ledger{warn: warn} }

func (l *ledger) add(name string, bytes int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.losses {
		if l.losses[i].Name == name {
			l.losses[i].Bytes += bytes
			return
		}
	}
	l.losses = append(l.losses, Loss{Name: name, Bytes: bytes, Err: err})
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(warnDelay, l.report)
	}
}

// report passes on what was not reported before.
func (l *ledger) report() {
	l.mu.Lock()
	l.timer = nil
	fresh := slices.Clone(l.losses[l.reported:])
	l.reported = len(l.losses)
	l.mu.Unlock()
	if len(fresh) > 0 && l.warn != nil {
		l.warn(fresh)
	}
}

// close reports the rest and returns the totals, by name.
func (l *ledger) close() []Loss {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.report()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.losses)
	slices.SortFunc(all, func(a, b Loss) int { return strings.Compare(a.Name, b.Name) })
	return all
}
