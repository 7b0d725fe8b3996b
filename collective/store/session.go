package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	maxPending  = 4096             // waiting requests of one client
	maxBacklog  = 64 << 20         // bytes of replies that a client has not read
	writeLimit  = 30 * time.Second // for a client to take what it asked for
	readBufSize = 16 << 10
)

// session serves one admitted client: a reader that handles requests at once
// or parks them in the table, and a writer for the replies.
type session struct {
	conn  net.Conn
	table *table

	mu      sync.Mutex
	waiting map[uint64]*waiter
	out     []byte // encoded replies, not yet written
	dead    bool
	wake    chan struct{} // cap 1: out has grown or the session is dead
}

func newSession(c net.Conn, t *table) *session {
	return &session{conn: c, table: t, waiting: map[uint64]*waiter{}, wake: make(chan struct{}, 1)}
}

func (s *session) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	s.read()
	s.end()
	<-written
}

// end marks the session dead and releases its waiters.
func (s *session) end() {
	s.mu.Lock()
	s.dead = true
	gone := make([]*waiter, 0, len(s.waiting))
	for _, w := range s.waiting {
		gone = append(gone, w)
	}
	clear(s.waiting)
	s.mu.Unlock()
	s.table.forget(gone...)
	s.signal()
	_ = s.conn.Close()
}

func (s *session) read() {
	r := bufio.NewReaderSize(s.conn, readBufSize)
	var f frame
	for {
		if err := readFrame(r, &f); err != nil {
			return
		}
		if err := s.handle(&f); err != nil {
			// A client that breaks the protocol is cut off; a wrong argument
			// has been answered.
			return
		}
	}
}

func (s *session) write() {
	var spare []byte
	for range s.wake {
		s.mu.Lock()
		b, dead := s.out, s.dead
		s.out = spare[:0]
		s.mu.Unlock()
		if dead {
			return
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := s.conn.Write(b); err != nil {
			_ = s.conn.Close() // the reader ends and ends the session
		}
		spare = b
		if cap(spare) > MaxValue {
			spare = nil
		}
	}
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reply queues a reply. It never blocks: it is called under the table's lock.
func (s *session) reply(id uint64, st status, fields ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	s.out = appendFrame(s.out, id, byte(st), fields...)
	if len(s.out) > maxBacklog {
		_ = s.conn.Close()
	}
	s.signal()
}

// request shapes: how many fields each opcode has; -1: one or more.
func fieldCount(op opcode) (int, bool) {
	switch op {
	case opSet, opAdd:
		return 2, true
	case opGet, opDelete:
		return 1, true
	case opWait:
		return -1, true
	case opCompareAndSet:
		return 4, true
	case opCancel:
		return 0, true
	}
	return 0, false
}

func (s *session) handle(f *frame) error {
	op := opcode(f.code)
	want, known := fieldCount(op)
	if !known || (want >= 0 && want != len(f.fields)) || (want < 0 && len(f.fields) == 0) {
		return fmt.Errorf("%w: opcode %d with %d fields", errFrame, f.code, len(f.fields))
	}
	if op == opCancel {
		s.cancel(f.id)
		return nil
	}
	if err := s.execute(op, f); err != nil {
		if errors.Is(err, errFrame) {
			return err
		}
		s.reply(f.id, statusInvalid, []byte(err.Error()))
	}
	return nil
}

// execute runs one request. Fields alias the frame's own body, which nothing
// else uses, so values are kept without a copy.
func (s *session) execute(op opcode, f *frame) error {
	key := string(f.fields[0])
	if err := checkKey(key); err != nil {
		return err
	}
	switch op {
	case opSet:
		if err := checkValue(key, f.fields[1]); err != nil {
			return err
		}
		s.table.set(key, bytes.Clone(f.fields[1]))
		s.reply(f.id, statusDone)
	case opGet, opWait:
		return s.await(op, f)
	case opAdd:
		if len(f.fields[1]) != 8 {
			return errFrame
		}
		sum, err := s.table.add(key, int64(binary.BigEndian.Uint64(f.fields[1])))
		if err != nil {
			return err
		}
		s.reply(f.id, statusDone, strconv.AppendInt(nil, sum, 10))
	case opCompareAndSet:
		return s.compareAndSet(key, f)
	case opDelete:
		if s.table.remove(key) {
			s.reply(f.id, statusDone)
		} else {
			s.reply(f.id, statusNo)
		}
	}
	return nil
}

// compareAndSet has the fields key, "1" if a value is expected, expected,
// desired.
func (s *session) compareAndSet(key string, f *frame) error {
	if err := checkValue(key, f.fields[3]); err != nil {
		return err
	}
	var expected []byte
	if len(f.fields[1]) > 0 {
		expected = append([]byte{}, f.fields[2]...)
	}
	value, ok := s.table.compareAndSet(key, expected, bytes.Clone(f.fields[3]))
	if ok {
		s.reply(f.id, statusDone, value)
	} else {
		s.reply(f.id, statusNo, value)
	}
	return nil
}

func (s *session) await(op opcode, f *frame) error {
	keys := make([]string, len(f.fields))
	for i, k := range f.fields {
		keys[i] = string(k)
	}
	if err := checkKeys(keys); err != nil {
		return err
	}
	id := f.id
	w := &waiter{keys: keys}
	w.done = func(value []byte) {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
		if op == opWait {
			value = nil
		}
		s.reply(id, statusDone, value)
	}
	s.mu.Lock()
	_, twice := s.waiting[id]
	full := len(s.waiting) >= maxPending
	if !twice && !full {
		s.waiting[id] = w
	}
	s.mu.Unlock()
	if twice {
		return errFrame
	}
	if full {
		return fmt.Errorf("more than %d calls wait at once", maxPending)
	}
	s.table.await(w)
	return nil
}

func (s *session) cancel(id uint64) {
	s.mu.Lock()
	w, ok := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if ok {
		s.table.forget(w)
	}
}
