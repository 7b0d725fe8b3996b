package proc

import "runtime"

// birthThread is one OS thread on which all ranks are started. The kernel sends
// the parent-death signal when the *thread* that forked ends, and Go ends and
// makes threads as it likes; this one ends only in stop.
type birthThread struct {
	work chan func()
	done chan struct{}
}

func newBirthThread() *birthThread {
	t := &birthThread{work: make(chan func()), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *birthThread) run() {
	// Never unlocked: the runtime then ends the thread with the goroutine
	// instead of giving it to other work.
	runtime.LockOSThread()
	defer close(t.done)
	for f := range t.work {
		f()
	}
}

// do runs f on the thread and waits for it.
func (t *birthThread) do(f func()) {
	ready := make(chan struct{})
	t.work <- func() { defer close(ready); f() }
	<-ready
}

// stop ends the thread, and with it every process that is still its child.
func (t *birthThread) stop() {
	close(t.work)
	<-t.done
}
