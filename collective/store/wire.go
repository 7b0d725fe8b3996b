package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a length (uint32, big endian, of what follows), a request id
// (uint64), a code (one byte) and fields, each a uvarint length and bytes.
// Requests carry an opcode, replies a status.
const (
	frameHead = 4
	idLen     = 8

	// MaxKey and MaxValue bound a key and a value, in bytes.
	MaxKey   = 4 << 10
	MaxValue = 1 << 20

	maxKeys  = 4096                  // of one Wait
	maxFrame = 2*MaxValue + 4*MaxKey // a compare-and-set with both values
	minFrame = idLen + 1
)

type opcode byte

const (
	opSet opcode = iota + 1
	opGet
	opWait
	opAdd
	opCompareAndSet
	opDelete
	opCancel // of the request with the same id; has no reply
)

type status byte

const (
	statusDone    status = iota + 1
	statusNo             // done, and the answer of the yes-or-no question is no
	statusInvalid        // the field is the reason
)

var errFrame = errors.New("malformed frame")

// frame is one request or reply, decoded. Fields alias the read buffer.
type frame struct {
	id     uint64
	code   byte
	fields [][]byte
}

// appendFrame encodes a frame.
func appendFrame(b []byte, id uint64, code byte, fields ...[]byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, code)
	for _, f := range fields {
		b = binary.AppendUvarint(b, uint64(len(f)))
		b = append(b, f...)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-frameHead))
	return b
}

// readFrame reads one frame from r. The memory it takes grows with the bytes
// that arrive, not with the length they promise.
func readFrame(r io.Reader, f *frame) error {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < minFrame || n > maxFrame {
		return fmt.Errorf("%w: length %d is not within %d and %d", errFrame, n, minFrame, maxFrame)
	}
	body, err := readBody(r, int(n))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return decodeBody(body, f)
}

func readBody(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(n, step))
	for len(body) < n {
		at := len(body)
		more := min(n-at, max(at, step))
		body = append(body, make([]byte, more)...)
		if _, err := io.ReadFull(r, body[at:]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func decodeBody(b []byte, f *frame) error {
	if len(b) < minFrame {
		return fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	f.id = binary.BigEndian.Uint64(b)
	f.code = b[idLen]
	f.fields = f.fields[:0]
	for b = b[minFrame:]; len(b) > 0; {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return fmt.Errorf("%w: field %d runs past the end", errFrame, len(f.fields))
		}
		if len(f.fields) == maxKeys {
			return fmt.Errorf("%w: more than %d fields", errFrame, maxKeys)
		}
		f.fields = append(f.fields, b[k:uint64(k)+n])
		b = b[uint64(k)+n:]
	}
	return nil
}
