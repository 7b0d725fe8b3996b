package cpu

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// engine runs one operation after the other over the connections. It belongs
// to the group's worker.
type engine struct {
	rank, size int
	timeout    time.Duration
	segment    int
	peers      []*peer // from the next rank on, around: not all start with rank 0
	byRank     []*peer // nil at rank
	polled     []unix.PollFd
	alarm      int // descriptor that becomes readable when the group is aborted
	stopped    atomic.Bool

	op       *operation
	mine     spec
	deadline time.Time
	own      sums
	sum      []byte
	exchange bool
	ready    int // bytes of this rank's part of the result that may be sent on
}

func newEngine(rank, size int, timeout time.Duration, fds []int, alarm int) *engine {
	e := &engine{rank: rank, size: size, timeout: timeout, alarm: alarm, segment: segmentOf(size), byRank: make([]*peer, size)}
	for i := 1; i < size; i++ {
		r := (rank + i) % size
		p := &peer{rank: r, fd: fds[r], slot: aligned(e.segment)}
		e.byRank[r] = p
		e.peers = append(e.peers, p)
	}
	e.polled = make([]unix.PollFd, size)
	e.sum = aligned(e.segment)
	return e
}

// run does one operation. After a failure the connections are of no use.
func (e *engine) run(o *operation) *failure {
	e.op, e.mine = o, o.spec
	e.deadline = time.Now().Add(e.timeout)
	e.plan(o)
	for {
		if e.stopped.Load() {
			return &failure{} // the group knows why
		}
		if f := e.turn(); f != nil {
			return f
		}
		if e.finished() {
			return nil
		}
		if f := e.wait(); f != nil {
			return f
		}
	}
}

// turn moves at most one frame each way for each peer, then reduces.
func (e *engine) turn() *failure {
	for _, p := range e.peers {
		if e.maySend(p) {
			if f := e.send(p); f != nil {
				return f
			}
		}
	}
	for _, p := range e.peers {
		if e.mayReceive(p) {
			if f := e.receive(p); f != nil {
				return f
			}
		}
	}
	if e.own.reduce != nil && !e.exchange {
		e.accumulate()
	}
	return nil
}

func (e *engine) finished() bool {
	for _, p := range e.peers {
		if p.owed() || p.owes() {
			return false
		}
	}
	if e.exchange {
		e.exchanged()
	}
	return true
}

func (e *engine) hasFrame(p *peer) bool {
	return p.sending || !p.opened || p.scatterOut.left() > 0 || p.gatherOut.at < min(e.ready, p.gatherOut.size)
}

func (e *engine) maySend(p *peer) bool { return p.writable && e.hasFrame(p) }

func (e *engine) mayReceive(p *peer) bool {
	if p.held || !p.owed() {
		return false
	}
	return p.readable || (!p.receiving && p.inHeadGot == headerLen)
}

// send writes the frame that is under way, or the next one.
func (e *engine) send(p *peer) *failure {
	if !p.sending {
		e.compose(p)
	}
	if _, err := p.write(); err != nil {
		return p.broke(err)
	}
	return nil
}

// compose begins the next frame. The gather lane goes first: its bytes have
// just been reduced and are still in the cache.
func (e *engine) compose(p *peer) {
	h := header{spec: e.mine}
	var l *lane
	switch {
	case !p.opened:
		p.opened = true
		h.kind, h.a, h.b = kindOp, e.mine.count, e.mine.root
		h.size = e.opening(e.rank, &p.scatterOut, &p.gatherOut)
		l = &p.scatterOut
		if l.size == 0 {
			l = &p.gatherOut
		}
	case p.gatherOut.at < min(e.ready, p.gatherOut.size):
		l = &p.gatherOut
		h.kind, h.a = kindGather, uint64(l.at)
		h.size = min(e.segment, min(e.ready, l.size)-l.at)
	default:
		l = &p.scatterOut
		h.kind, h.a = kindScatter, uint64(l.at)
		h.size = min(e.segment, l.left())
	}
	h.encode(&p.outHead)
	p.outBody = l.data[l.at : l.at+h.size]
	l.at += h.size
	p.sending, p.outSent = true, 0
}

// receive reads once, and handles what is complete.
func (e *engine) receive(p *peer) *failure {
	if p.receiving {
		return e.receiveBody(p)
	}
	landed := 0
	if p.inHeadGot < headerLen {
		head := p.inHead[p.inHeadGot:]
		var body []byte
		if !p.greeted {
			body = e.openingPlace(p) // what comes first is known: one call gets both
		}
		n, err := p.read(head, body)
		if err != nil {
			return p.broke(err)
		}
		k := min(n, len(head))
		p.inHeadGot += k
		if p.inHeadGot < headerLen {
			return nil
		}
		landed = n - k
	}
	if err := p.in.decode(&p.inHead); err != nil {
		return p.nonsense(err)
	}
	if p.in.kind == kindFarewell {
		return e.beginFarewell(p, landed)
	}
	return e.beginBody(p, landed)
}

// openingPlace is where the payload of the peer's first frame goes.
func (e *engine) openingPlace(p *peer) []byte {
	n := e.opening(p.rank, &p.scatterIn, &p.gatherIn)
	if p.scatterIn.size > 0 {
		return e.scatterPlace(p)[:n]
	}
	return p.gatherIn.data[:n]
}

func (e *engine) scatterPlace(p *peer) []byte {
	if l := &p.scatterIn; l.data != nil {
		return l.data[l.at:]
	}
	return p.slot
}

// beginBody judges a header and finds the place of its payload, of which landed
// bytes are there already.
func (e *engine) beginBody(p *peer, landed int) *failure {
	h := &p.in
	if h.kind == kindOp {
		if p.greeted || h.spec != e.mine {
			return mismatch(e.rank, e.mine, p.rank, h.spec)
		}
		place := e.openingPlace(p)
		if h.size != len(place) {
			return p.nonsense(fmt.Errorf("%v opens with %d bytes where %d are due", h.spec, h.size, len(place)))
		}
		p.greeted = true
		p.receiving, p.inBody, p.inGot, p.inHeadGot = true, place, landed, 0
		return e.endBody(p)
	}
	l := &p.gatherIn
	if h.kind == kindScatter {
		l = &p.scatterIn
	}
	if !p.greeted || h.spec != (spec{op: e.mine.op, dtype: e.mine.dtype, reduce: e.mine.reduce, seq: e.mine.seq}) ||
		h.a != uint64(l.at) || h.size > l.left() || h.size == 0 {
		return p.nonsense(fmt.Errorf("a segment of %d bytes at %d of %v where %d of %d bytes of %v are there",
			h.size, h.a, h.spec, l.at, l.size, e.mine))
	}
	switch {
	case h.kind == kindGather:
		p.inBody = l.data[l.at : l.at+h.size]
	case l.data != nil:
		p.inBody = l.data[l.at : l.at+h.size]
	case h.size != min(e.segment, l.left()):
		return p.nonsense(fmt.Errorf("a segment of %d bytes, %d are due", h.size, min(e.segment, l.left())))
	case p.full:
		p.held = true // until the slot is reduced; nobody waits for us meanwhile
		return nil
	default:
		p.inBody = p.slot[:h.size]
	}
	p.receiving, p.inGot, p.inHeadGot = true, 0, 0
	return e.receiveBody(p)
}

// receiveBody reads payload, and the next header with it if one is due.
func (e *engine) receiveBody(p *peer) *failure {
	if !p.readable || p.inGot == len(p.inBody) {
		return e.endBody(p)
	}
	var next []byte
	if e.more(p) {
		next = p.inHead[p.inHeadGot:]
	}
	n, err := p.read(p.inBody[p.inGot:], next)
	if err != nil {
		return p.broke(err)
	}
	k := min(n, len(p.inBody)-p.inGot)
	p.inGot += k
	p.inHeadGot += n - k
	return e.endBody(p)
}

// more says that another frame follows the current one in this operation.
func (e *engine) more(p *peer) bool {
	return p.in.kind != kindFarewell && p.scatterIn.left()+p.gatherIn.left() > p.in.size
}

// endBody books a payload that is complete.
func (e *engine) endBody(p *peer) *failure {
	if p.inGot < len(p.inBody) {
		return nil
	}
	p.receiving = false
	if p.in.kind == kindFarewell {
		return told(p.rank, p.in, string(p.inBody))
	}
	l := &p.gatherIn
	if p.in.kind == kindScatter || (p.in.kind == kindOp && p.scatterIn.size > 0) {
		l = &p.scatterIn
	}
	l.at += p.in.size
	switch {
	case l != &p.scatterIn:
	case l.data != nil:
		e.ready = l.at
	default:
		p.full = p.in.size > 0
	}
	return nil
}

// beginFarewell reads the text of a farewell; a part of it may lie where the
// payload of another frame was expected.
func (e *engine) beginFarewell(p *peer, landed int) *failure {
	p.farewell = make([]byte, p.in.size)
	if landed > 0 {
		copy(p.farewell, e.openingPlace(p)[:landed])
	}
	p.receiving, p.inBody, p.inGot, p.inHeadGot = true, p.farewell, min(landed, p.in.size), 0
	return e.receiveBody(p)
}

// release frees the slot for the next segment.
func (p *peer) release() { p.full, p.held = false, false }

// wait returns when a peer can be read or written, at once if there is
// something to do without it.
func (e *engine) wait() *failure {
	busy := false
	e.polled[0] = unix.PollFd{Fd: int32(e.alarm), Events: unix.POLLIN}
	for i, p := range e.peers {
		busy = busy || e.maySend(p) || e.mayReceive(p)
		var events int16
		if p.owed() && !p.held && !p.readable {
			events |= unix.POLLIN
		}
		if !p.writable && e.hasFrame(p) {
			events |= unix.POLLOUT
		}
		fd := int32(p.fd)
		if events == 0 {
			fd = -1 // a peer that owes nothing may leave
		}
		e.polled[i+1] = unix.PollFd{Fd: fd, Events: events}
	}
	if f := e.poll(busy); f != nil {
		return f
	}
	for i, p := range e.peers {
		got := e.polled[i+1]
		const broken = unix.POLLHUP | unix.POLLERR | unix.POLLNVAL
		p.readable = p.readable || got.Revents&(unix.POLLIN|broken) != 0
		p.writable = p.writable || got.Revents&(unix.POLLOUT|broken) != 0
	}
	return nil
}

func (e *engine) poll(busy bool) *failure {
	for {
		limit := 0
		if !busy {
			left := time.Until(e.deadline)
			if left <= 0 {
				return e.overdue()
			}
			limit = int(min(left, time.Hour).Milliseconds()) + 1
		}
		n, err := unix.Poll(e.polled, limit)
		if err != nil && err != unix.EINTR {
			return lost(e.rank, fmt.Errorf("poll: %w", err))
		}
		if err == nil && (n > 0 || busy) {
			return nil
		}
	}
}

// overdue names the ranks that this one still waits for.
func (e *engine) overdue() *failure {
	var waits []string
	culprit := -1
	for _, p := range slices.SortedFunc(slices.Values(e.peers), func(a, b *peer) int { return a.rank - b.rank }) {
		switch {
		case !p.greeted:
			waits = append(waits, fmt.Sprintf("rank %d (has not begun it)", p.rank))
		case p.owed() && !p.held:
			waits = append(waits, fmt.Sprintf("rank %d (sent %d of %d bytes)", p.rank,
				p.scatterIn.at+p.gatherIn.at, p.scatterIn.size+p.gatherIn.size))
		case p.owes() && p.sending:
			waits = append(waits, fmt.Sprintf("rank %d (does not take its bytes)", p.rank))
		default:
			continue
		}
		if culprit < 0 {
			culprit = p.rank
		}
	}
	text := fmt.Sprintf("rank %d waited %v in %v for %s", e.rank, e.timeout, e.mine, strings.Join(waits, ", "))
	return &failure{class: classTimeout, rank: culprit, source: -1, text: text}
}

// farewellTime bounds the saying of farewells.
const farewellTime = 250 * time.Millisecond

// farewell tells all peers why the group ends, as far as they take it, and
// closes the connections.
func (e *engine) farewell(f *failure, last uint64) {
	text := []byte(f.text)
	text = text[:min(len(text), maxFarewell)]
	h := header{kind: kindFarewell, spec: spec{seq: last}, size: len(text), a: uint64(f.rank), b: uint64(f.class)}
	deadline := time.Now().Add(farewellTime)
	said := make([]bool, e.size)
	for {
		waiting := e.polled[:0]
		for _, p := range e.peers {
			if !said[p.rank] {
				said[p.rank] = p.say(&h, text)
			}
			if !said[p.rank] {
				waiting = append(waiting, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLOUT})
			}
		}
		left := time.Until(deadline)
		if len(waiting) == 0 || left <= 0 {
			break
		}
		_, _ = unix.Poll(waiting, int(left.Milliseconds())+1)
	}
	for _, p := range e.peers {
		p.close()
	}
}

// say finishes the frame that is under way and sends a farewell behind it. It
// returns true when there is nothing more to try.
func (p *peer) say(h *header, text []byte) bool {
	for {
		if !p.sending {
			h.encode(&p.outHead)
			p.outBody, p.outSent, p.sending = text, 0, true
		}
		last := kind(p.outHead[0]) == kindFarewell
		out, err := p.write()
		if err != nil || (out && last) {
			return true
		}
		if !out {
			return false
		}
	}
}
