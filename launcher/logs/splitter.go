package logs

import "bytes"

// MaxPiece is the longest line that the console shows in one piece, in bytes
// without the prefix.
const MaxPiece = 64 << 10

// splitter turns a stream of bytes into whole lines with a prefix. It holds at
// most one unfinished line.
type splitter struct {
	prefix []byte
	buf    []byte // unfinished line or frame
	frame  bool   // buf replaces what stood in this line before
	cr     bool   // a carriage return is pending: line end or frame end
}

// feed takes a chunk and appends the lines it completes to out.
func (s *splitter) feed(chunk, out []byte) []byte {
	for len(chunk) > 0 {
		if s.cr {
			switch chunk[0] {
			case '\r': // "\r\r\n" is what some runtimes make of "\r\n"
				chunk = chunk[1:]
				continue
			case '\n':
			default:
				s.buf, s.frame = s.buf[:0], true
			}
			s.cr = false
		}
		n := lineEnd(chunk)
		text := chunk
		if n >= 0 {
			text = chunk[:n]
		}
		out = s.grow(text, out)
		if n < 0 {
			return out
		}
		if chunk[n] == '\n' {
			out = s.line(out)
		} else {
			s.cr = true
		}
		chunk = chunk[n+1:]
	}
	return out
}

// grow adds text to the unfinished line and puts out full pieces of it.
func (s *splitter) grow(text, out []byte) []byte {
	for len(s.buf)+len(text) > MaxPiece {
		room := MaxPiece - len(s.buf)
		s.buf = append(s.buf, text[:room]...)
		text = text[room:]
		out = s.line(out)
	}
	s.buf = append(s.buf, text...)
	return out
}

func (s *splitter) line(out []byte) []byte {
	out = append(out, s.prefix...)
	out = append(out, s.buf...)
	s.buf, s.frame = s.buf[:0], false
	return append(out, '\n')
}

// current is the frame that should stand on a terminal now, nil if none.
func (s *splitter) current() []byte {
	if (s.frame || s.cr) && len(s.buf) > 0 {
		return s.buf
	}
	return nil
}

// end completes what the stream left unfinished.
func (s *splitter) end(out []byte) []byte {
	if len(s.buf) > 0 {
		out = s.line(out)
	}
	s.cr = false
	return out
}

// lineEnd is the index of the first line feed or carriage return, -1 if there
// is none.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	head := b
	if n >= 0 {
		head = b[:n]
	}
	if r := bytes.IndexByte(head, '\r'); r >= 0 {
		return r
	}
	return n
}
