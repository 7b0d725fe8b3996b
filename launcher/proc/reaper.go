package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// reaper collects adopted orphans when they end, so that a long run does not
// fill the process table. It must not take the status of a child that other
// code of this program waits for; such code collects within moments, so only a
// zombie that was there on two looks, reapAge apart, is an orphan's.
type reaper struct {
	foreign func(pid int) bool
	ended   func() // called after children ended: groups may be empty now
	sig     chan os.Signal
	quit    chan struct{}
	done    chan struct{}
	seen    map[int]time.Time // of run
}

const reapAge = time.Second

func newReaper(foreign func(int) bool, ended func()) *reaper {
	r := &reaper{
		foreign: foreign,
		ended:   ended,
		sig:     make(chan os.Signal, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		seen:    map[int]time.Time{},
	}
	signal.Notify(r.sig, syscall.SIGCHLD)
	go r.run()
	return r
}

func (r *reaper) run() {
	defer close(r.done)
	var timer <-chan time.Time
	for {
		select {
		case <-r.quit:
			return
		case <-r.sig:
			if timer == nil { // children end in swarms: one look for all
				timer = time.After(reapAge)
			}
		case <-timer:
			timer = nil
			r.ended()
			if r.look(reapAge) {
				timer = time.After(reapAge)
			}
		}
	}
}

// look collects zombies that have been seen for age and says whether younger
// ones are left.
func (r *reaper) look(age time.Duration) bool {
	now := time.Now()
	still := map[int]time.Time{}
	for _, pid := range zombieChildren(os.Getpid()) {
		if !r.foreign(pid) {
			continue
		}
		first, known := r.seen[pid]
		if !known {
			first = now
		}
		if now.Sub(first) < age {
			still[pid] = first
			continue
		}
		var w syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &w, syscall.WNOHANG, nil)
	}
	r.seen = still
	return len(still) > 0
}

func (r *reaper) stop() {
	signal.Stop(r.sig)
	close(r.quit)
	<-r.done
}
