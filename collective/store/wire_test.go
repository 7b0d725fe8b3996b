package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective/internal/proof"
)

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, 1, byte(opGet), []byte("key")))
	f.Add(appendFrame(nil, 1<<63, byte(opCompareAndSet), []byte("key"), nil, nil, []byte("value")))
	f.Add(appendFrame(nil, 7, byte(opCancel)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got frame
		if err := readFrame(bytes.NewReader(b), &got); err != nil {
			return
		}
		again := appendFrame(nil, got.id, got.code, got.fields...)
		var twin frame
		if err := readFrame(bytes.NewReader(again), &twin); err != nil {
			t.Fatalf("own encoding refused: %v", err)
		}
		if twin.id != got.id || twin.code != got.code || !slices.EqualFunc(twin.fields, got.fields, bytes.Equal) {
			t.Fatalf("%v became %v", got, twin)
		}
	})
}

// FuzzSession feeds any frame body to a live session.
func FuzzSession(f *testing.F) {
	f.Add(byte(opSet), []byte("\x01k\x01v"))
	f.Add(byte(opGet), []byte("\x01k"))
	f.Add(byte(opWait), []byte("\x01k\x01k"))
	f.Add(byte(opAdd), []byte("\x01k\x0812345678"))
	f.Add(byte(opCompareAndSet), []byte("\x01k\x00\x00\x01v"))
	f.Add(byte(opCancel), []byte{})
	f.Fuzz(func(t *testing.T, code byte, fields []byte) {
		here, there := net.Pipe()
		s := newSession(there, newTable())
		body := append(make([]byte, idLen), code)
		body = append(body, fields...)
		var fr frame
		if decodeBody(body, &fr) == nil {
			_ = s.handle(&fr)
			_ = s.handle(&fr)
		}
		s.end()
		if len(s.waiting) != 0 || len(s.table.waiters) != 0 {
			t.Errorf("waiters are left: %v", s.table.waiters)
		}
		_ = here.Close()
	})
}

func TestLongFrameCostsNothing(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, maxFrame)
	got := testing.AllocsPerRun(1, func() {
		var f frame
		_ = readFrame(bytes.NewReader(head), &f)
	})
	if got > 10 {
		t.Errorf("%v allocations for an announced frame", got)
	}
	var f frame
	if err := readFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxFrame+1)), &f); !errors.Is(err, errFrame) {
		t.Errorf("oversized frame: %v", err)
	}
}

func TestWaitersAreReleased(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	waiting := func() int {
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		return len(s.table.waiters)
	}
	until := func(n int) {
		t.Helper()
		for range 500 {
			if waiting() == n {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		t.Fatalf("%d keys have waiters, want %d", waiting(), n)
	}
	c, err := Dial(t.Context(), s.Addr(), "t")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { _, _ = c.Get(ctx, "a"); ended <- struct{}{} }()
	go func() { _ = s.Local().Wait(ctx, "b", "c"); ended <- struct{}{} }()
	until(3)
	cancel()
	<-ended
	<-ended
	until(0)
	go func() { _, _ = c.Get(context.Background(), "d"); ended <- struct{}{} }()
	until(1)
	_ = c.Close()
	<-ended
	until(0)
}

func TestProtocolBreakerIsCutOff(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, b := range [][]byte{
		{0xff, 0xff, 0xff, 0xff},
		appendFrame(nil, 1, 99),
		appendFrame(nil, 1, byte(opAdd), []byte("k"), []byte("short")),
	} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if err := proof.Dial(c, "t", proof.Store, nil); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, context.DeadlineExceeded) || err == nil {
			t.Errorf("%x: the connection lives: %d, %v", b, n, err)
		}
		_ = c.Close()
	}
}

func BenchmarkSetGet(b *testing.B) {
	s, err := Listen(b.Context(), "127.0.0.1:0", "t")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, err := Dial(b.Context(), s.Addr(), "t")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for b.Loop() {
		if err := c.Set(b.Context(), "k", []byte("v")); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Get(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}
