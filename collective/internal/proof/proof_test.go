package proof_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective/internal/proof"
)

type accepted struct {
	hello []byte
	err   error
}

func meet(t *testing.T, dialToken, acceptToken string, dial, accept proof.Purpose, check func([]byte) error) (accepted, error) {
	t.Helper()
	a, b := net.Pipe()
	defer func() { _ = a.Close() }()
	got := make(chan accepted, 1)
	go func() {
		defer func() { _ = b.Close() }()
		hello, err := proof.Accept(b, acceptToken, accept, check)
		got <- accepted{hello, err}
	}()
	err := proof.Dial(a, dialToken, dial, []byte("rank 3"))
	_ = a.Close()
	return <-got, err
}

func TestAdmitted(t *testing.T) {
	got, err := meet(t, "t", "t", proof.Mesh, proof.Mesh, nil)
	if err != nil || got.err != nil || string(got.hello) != "rank 3" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestRefused(t *testing.T) {
	if got, err := meet(t, "t", "u", proof.Mesh, proof.Mesh, nil); !errors.Is(err, proof.ErrToken) || !errors.Is(got.err, proof.ErrToken) {
		t.Errorf("token: %v, %v", err, got.err)
	}
	if got, err := meet(t, "t", "t", proof.Mesh, proof.Store, nil); !errors.Is(err, proof.ErrStranger) || !errors.Is(got.err, proof.ErrStranger) {
		t.Errorf("purpose: %v, %v", err, got.err)
	}
	no := func([]byte) error { return errors.New("rank 3 is here already") }
	if got, err := meet(t, "t", "t", proof.Mesh, proof.Mesh, no); !errors.Is(err, proof.ErrHello) || !strings.Contains(err.Error(), "here already") || !errors.Is(got.err, proof.ErrHello) {
		t.Errorf("hello: %v, %v", err, got.err)
	}
	asked := false
	_, _ = meet(t, "t", "u", proof.Mesh, proof.Mesh, func([]byte) error { asked = true; return nil })
	if asked {
		t.Error("a stranger's hello was looked at")
	}
}

// tap records what is written.
type tap struct {
	net.Conn
	sent *bytes.Buffer
}

func (t tap) Write(b []byte) (int, error) { t.sent.Write(b); return t.Conn.Write(b) }

func TestTokenIsNotSentAndProofsCannotBeReplayed(t *testing.T) {
	record := func() []byte {
		a, b := net.Pipe()
		defer func() { _ = a.Close() }()
		go func() { _, _ = proof.Accept(b, "secret", proof.Mesh, nil) }()
		var sent bytes.Buffer
		if err := proof.Dial(tap{a, &sent}, "secret", proof.Mesh, nil); err != nil {
			t.Fatal(err)
		}
		return sent.Bytes()
	}
	first := record()
	if bytes.Contains(first, []byte("secret")) {
		t.Error("the token goes over the wire")
	}
	a, b := net.Pipe()
	defer func() { _ = a.Close() }()
	got := make(chan error, 1)
	go func() {
		_, err := proof.Accept(b, "secret", proof.Mesh, nil)
		_ = b.Close()
		got <- err
	}()
	go func() { _, _ = io.Copy(io.Discard, a) }()
	_, _ = a.Write(first)
	if err := <-got; !errors.Is(err, proof.ErrToken) {
		t.Errorf("a recorded proof was taken: %v", err)
	}
}

// script is a connection whose other side sends fixed bytes.
type script struct{ io.Reader }

func (script) Write(b []byte) (int, error)      { return len(b), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return nil }
func (script) RemoteAddr() net.Addr             { return nil }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

func FuzzHandshake(f *testing.F) {
	f.Add([]byte("ddprun\x01m0123456789abcdef\x00\x01h"))
	f.Add([]byte("ddprun\x01m0123456789abcdef\x02\xff\xffrefused"))
	f.Add([]byte("HTTP/1.1 400"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := proof.Dial(script{bytes.NewReader(b)}, "t", proof.Mesh, []byte("h")); err == nil {
			t.Fatal("admitted without a proof")
		}
		if _, err := proof.Accept(script{bytes.NewReader(b)}, "t", proof.Mesh, nil); err == nil {
			t.Fatal("accepted without a proof")
		}
	})
}
