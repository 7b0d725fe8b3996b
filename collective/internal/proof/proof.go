package proof

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
	"unicode"
)

// Timeout bounds a handshake on both sides.
const Timeout = 5 * time.Second

// MaxHello is the largest hello in bytes.
const MaxHello = 1024

// Purpose keeps protocols apart: a proof for one is void for another.
type Purpose byte

// Purposes.
const (
	Store Purpose = 's'
	Mesh  Purpose = 'm'
)

// Errors of a handshake. Errors of the network pass through wrapped.
var (
	// ErrStranger: the other side does not speak this protocol.
	ErrStranger = errors.New("not a ddprun peer")
	// ErrToken: the other side holds another token.
	ErrToken = errors.New("token differs")
	// ErrHello: the token is right, but what the dialer asked for was refused.
	ErrHello = errors.New("refused")
)

const (
	version  = 1
	nonceLen = 16
	macLen   = sha256.Size
	prefix   = 8 // magic, version, purpose
	maxText  = 512

	statusOK    = 0
	statusToken = 1
	statusHello = 2
)

var magic = [6]byte{'d', 'd', 'p', 'r', 'u', 'n'}

// Dial runs the dialing side. hello says what the connection is for; the other
// side sees it before it admits.
func Dial(c net.Conn, token string, purpose Purpose, hello []byte) error {
	if len(hello) > MaxHello {
		return fmt.Errorf("hello of %d bytes is longer than %d", len(hello), MaxHello)
	}
	defer deadline(c)()
	mine := make([]byte, nonceLen)
	if _, err := rand.Read(mine); err != nil {
		return fmt.Errorf("draw nonce: %w", err)
	}
	first := append(opening(purpose, mine), 0, 0)
	binary.BigEndian.PutUint16(first[prefix+nonceLen:], uint16(len(hello)))
	if _, err := c.Write(append(first, hello...)); err != nil {
		return silent(err)
	}
	theirs, err := readOpening(c, purpose)
	if err != nil {
		return err
	}
	if _, err := c.Write(sign(token, "dial", purpose, mine, theirs, hello)); err != nil {
		return silent(err)
	}
	return readVerdict(c, sign(token, "accept", purpose, mine, theirs, hello))
}

// Accept runs the accepting side: it returns the dialer's hello once its proof
// holds and check (if any) has no objection. The text of check's error is sent
// to the dialer.
func Accept(c net.Conn, token string, purpose Purpose, check func(hello []byte) error) ([]byte, error) {
	defer deadline(c)()
	theirs, err := readOpening(c, purpose)
	if err != nil {
		return nil, err
	}
	hello, err := readBlock(c, MaxHello)
	if err != nil {
		return nil, err
	}
	mine := make([]byte, nonceLen)
	if _, err := rand.Read(mine); err != nil {
		return nil, fmt.Errorf("draw nonce: %w", err)
	}
	if _, err := c.Write(opening(purpose, mine)); err != nil {
		return nil, err
	}
	got := make([]byte, macLen)
	if _, err := io.ReadFull(c, got); err != nil {
		return nil, err
	}
	if !hmac.Equal(got, sign(token, "dial", purpose, theirs, mine, hello)) {
		_, _ = c.Write([]byte{statusToken})
		return nil, ErrToken
	}
	if check != nil {
		if err := check(hello); err != nil {
			text := []byte(err.Error())
			text = text[:min(len(text), maxText)]
			answer := binary.BigEndian.AppendUint16([]byte{statusHello}, uint16(len(text)))
			_, _ = c.Write(append(answer, text...))
			return nil, fmt.Errorf("%w: %w", ErrHello, err)
		}
	}
	answer := append([]byte{statusOK}, sign(token, "accept", purpose, theirs, mine, hello)...)
	if _, err := c.Write(answer); err != nil {
		return nil, err
	}
	return hello, nil
}

// deadline arms the handshake's deadline and returns its disarming.
func deadline(c net.Conn) func() {
	_ = c.SetDeadline(time.Now().Add(Timeout))
	return func() { _ = c.SetDeadline(time.Time{}) }
}

func opening(purpose Purpose, nonce []byte) []byte {
	b := make([]byte, 0, prefix+nonceLen+2+MaxHello)
	b = append(b, magic[:]...)
	b = append(b, version, byte(purpose))
	return append(b, nonce...)
}

// readOpening reads magic, version, purpose and nonce. The first bytes are
// judged as soon as they are there, so that a server which speaks first is
// told from one that is silent.
func readOpening(r io.Reader, purpose Purpose) ([]byte, error) {
	head := make([]byte, prefix)
	n, err := io.ReadFull(r, head)
	k := min(n, len(magic))
	if !bytes.Equal(head[:k], magic[:k]) {
		return nil, fmt.Errorf("%w: it sent %s", ErrStranger, printable(head[:n]))
	}
	if err != nil {
		return nil, silent(err)
	}
	if head[6] != version {
		return nil, fmt.Errorf("%w: it speaks version %d, this program version %d", ErrStranger, head[6], version)
	}
	if Purpose(head[7]) != purpose {
		return nil, fmt.Errorf("%w: the connection is for %q, not for %q", ErrStranger, rune(head[7]), rune(purpose))
	}
	nonce := make([]byte, nonceLen)
	if _, err := io.ReadFull(r, nonce); err != nil {
		return nil, silent(err)
	}
	return nonce, nil
}

// silent classifies an error before the other side has shown what it is.
func silent(err error) error {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return fmt.Errorf("%w: it was silent for %v: %w", ErrStranger, Timeout, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w: it closed the connection: %w", ErrStranger, err)
	}
	return err
}

func readVerdict(r io.Reader, want []byte) error {
	status := make([]byte, 1)
	if _, err := io.ReadFull(r, status); err != nil {
		return silent(err)
	}
	switch status[0] {
	case statusToken:
		return ErrToken
	case statusHello:
		text, err := readBlock(r, maxText)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", ErrHello, printable(text))
	case statusOK:
		got := make([]byte, macLen)
		if _, err := io.ReadFull(r, got); err != nil {
			return silent(err)
		}
		if !hmac.Equal(got, want) {
			return ErrToken
		}
		return nil
	}
	return fmt.Errorf("%w: unknown status %d", ErrStranger, status[0])
}

func readBlock(r io.Reader, limit int) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, silent(err)
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > limit {
		return nil, fmt.Errorf("%w: block of %d bytes is longer than %d", ErrStranger, n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, silent(err)
	}
	return b, nil
}

// sign binds the proof to its direction, purpose, both nonces and the hello:
// none of them can be replayed or swapped.
func sign(token, side string, purpose Purpose, dialer, accepter, hello []byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write(magic[:])
	h.Write([]byte{version, byte(purpose), byte(len(side))})
	h.Write([]byte(side))
	h.Write(dialer)
	h.Write(accepter)
	h.Write(hello)
	return h.Sum(nil)
}

func printable(b []byte) string {
	return fmt.Sprintf("%q", bytes.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '.'
	}, b))
}
