package cpu

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// lane is one direction of the data that two ranks owe each other in one
// operation.
type lane struct {
	data []byte // where it comes from or goes to; nil for the input of a reduction, see peer.slot
	size int
	at   int // bytes done
}

func (l *lane) left() int { return l.size - l.at }

// peer is the connection to another rank. Only the group's worker touches it.
type peer struct {
	rank int
	fd   int // non-blocking

	// Output. A frame that has been begun must be finished before another.
	writable              bool // until a write comes up short
	opened                bool // the operation's first frame is out
	sending               bool
	outHead               [headerLen]byte
	outBody               []byte
	outSent               int // of head and body
	scatterOut, gatherOut lane

	// Input.
	readable            bool // set by poll, until a read comes up short
	greeted             bool // the peer's first frame of this operation is in
	receiving           bool // inHead is decoded into in, its payload is coming
	held                bool // the next payload has no place yet: slot is full
	inHead              [headerLen]byte
	inHeadGot           int
	in                  header
	inBody              []byte
	inGot               int
	farewell            []byte
	scatterIn, gatherIn lane

	// slot takes one segment of the peer's share of a reduction.
	slot []byte
	full bool

	iov [2]unix.Iovec
}

// reset prepares for the next operation. What has been read of the peer's next
// frame stays.
func (p *peer) reset() {
	p.opened, p.greeted, p.held, p.full = false, false, false, false
	p.scatterOut, p.gatherOut, p.scatterIn, p.gatherIn = lane{}, lane{}, lane{}, lane{}
	p.readable, p.writable = false, true
}

// owed says that the peer has something to come in this operation.
func (p *peer) owed() bool {
	return !p.greeted || p.receiving || p.scatterIn.left() > 0 || p.gatherIn.left() > 0
}

// owes says that this rank has something to send, now or later.
func (p *peer) owes() bool {
	return !p.opened || p.sending || p.scatterOut.left() > 0 || p.gatherOut.left() > 0
}

var errEOF = errors.New("it closed the connection")

// write sends what it can of the current frame and says whether it is out.
func (p *peer) write() (bool, error) {
	for {
		head := p.outHead[min(p.outSent, headerLen):]
		body := p.outBody[max(p.outSent-headerLen, 0):]
		n, err := writev(p.fd, &p.iov, head, body)
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			p.writable = false
			return false, nil
		default:
			return false, err
		}
		p.outSent += n
		if p.outSent == headerLen+len(p.outBody) {
			p.sending = false
			return true, nil
		}
		p.writable = false // a short write means a full socket
		return false, nil
	}
}

// read fills first and then second. It clears readable when the socket has no
// more.
func (p *peer) read(first, second []byte) (int, error) {
	for {
		n, err := readv(p.fd, &p.iov, first, second)
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			p.readable = false
			return 0, nil
		default:
			return 0, err
		}
		if n == 0 {
			return 0, errEOF
		}
		if n < len(first)+len(second) {
			p.readable = false
		}
		return n, nil
	}
}

// lastWords looks for a farewell behind what the peer sent before its
// connection broke, and returns nil if there is none.
func (p *peer) lastWords() *failure {
	skip := 0
	if p.receiving && p.in.kind != kindFarewell {
		skip = len(p.inBody) - p.inGot
		p.receiving = false
	}
	trash := make([]byte, minSegment)
	for {
		switch {
		case skip > 0:
			n, err := p.drain(trash[:min(skip, len(trash))])
			if err != nil {
				return nil
			}
			skip -= n
		case p.receiving: // the farewell's text
			if p.inGot == len(p.inBody) {
				return told(p.rank, p.in, string(p.inBody))
			}
			n, err := p.drain(p.inBody[p.inGot:])
			if err != nil {
				return nil
			}
			p.inGot += n
		case p.inHeadGot < headerLen:
			n, err := p.drain(p.inHead[p.inHeadGot:])
			if err != nil {
				return nil
			}
			p.inHeadGot += n
		default:
			p.inHeadGot = 0
			if p.in.decode(&p.inHead) != nil {
				return nil
			}
			if p.in.kind != kindFarewell {
				skip = p.in.size
				continue
			}
			p.receiving, p.inBody, p.inGot = true, make([]byte, p.in.size), 0
		}
	}
}

// drain reads what has already arrived.
func (p *peer) drain(b []byte) (int, error) {
	n, err := p.read(b, nil)
	if err == nil && n == 0 {
		return 0, io.ErrNoProgress
	}
	return n, err
}

func (p *peer) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
		p.fd = -1
	}
}

func (p *peer) broke(err error) *failure {
	var errno unix.Errno
	if errors.As(err, &errno) {
		// What it said before it went is worth more than how it went.
		if f := p.lastWords(); f != nil {
			return f
		}
	}
	return lost(p.rank, err)
}

func (p *peer) nonsense(err error) *failure {
	return lost(p.rank, fmt.Errorf("protocol error: %w", err))
}
