package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a token"

func open(t *testing.T, addr string) *store.Server {
	t.Helper()
	s, err := store.Listen(t.Context(), addr, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func dial(t *testing.T, s *store.Server) *store.Client {
	t.Helper()
	c, err := store.Dial(t.Context(), s.Addr(), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// each runs test on every kind of Store.
func each(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("local", func(t *testing.T) { test(t, open(t, "127.0.0.1:0").Local()) })
	t.Run("client", func(t *testing.T) { test(t, dial(t, open(t, "127.0.0.1:0"))) })
	t.Run("ipv6", func(t *testing.T) {
		if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
			t.Skip("no IPv6 loopback here")
		} else {
			_ = l.Close()
		}
		test(t, dial(t, open(t, "[::1]:0")))
	})
	t.Run("prefix", func(t *testing.T) { test(t, store.Prefix(dial(t, open(t, "127.0.0.1:0")), "run/0")) })
}

func TestSemantics(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(s.Set(ctx, "k", []byte("v")))
		v, err := s.Get(ctx, "k")
		must(err)
		if string(v) != "v" {
			t.Errorf("get: %q", v)
		}
		v[0] = 'x' // the caller's copy
		if v, _ = s.Get(ctx, "k"); string(v) != "v" {
			t.Errorf("a caller changed the store: %q", v)
		}
		must(s.Set(ctx, "empty", nil))
		if v, err = s.Get(ctx, "empty"); err != nil || len(v) != 0 {
			t.Errorf("empty value: %q, %v", v, err)
		}
		for i, want := range []int64{5, 3, 3} {
			if n, err := s.Add(ctx, "n", []int64{5, -2, 0}[i]); err != nil || n != want {
				t.Errorf("add: %d, %v, want %d", n, err, want)
			}
		}
		if v, _ = s.Get(ctx, "n"); string(v) != "3" {
			t.Errorf("a sum is a decimal number, got %q", v)
		}
		if _, err = s.Add(ctx, "k", 1); err == nil || !strings.Contains(err.Error(), `"v" is no number`) {
			t.Errorf("add to text: %v", err)
		}
		must(s.Set(ctx, "big", []byte("9223372036854775807")))
		if _, err = s.Add(ctx, "big", 1); err == nil {
			t.Error("a sum overflowed silently")
		}
		must(s.Wait(ctx, "k", "n", "k"))
		must(s.Wait(ctx))

		type cas struct {
			expected, desired, value []byte
			set                      bool
		}
		for _, c := range []cas{
			{nil, []byte("1"), []byte("1"), true},
			{nil, []byte("2"), []byte("1"), false},
			{[]byte("0"), []byte("2"), []byte("1"), false},
			{[]byte("1"), []byte(""), []byte(""), true},
			{[]byte(""), []byte("3"), []byte("3"), true},
		} {
			v, set, err := s.CompareAndSet(ctx, "c", c.expected, c.desired)
			if err != nil || set != c.set || !bytes.Equal(v, c.value) {
				t.Errorf("compare-and-set %q -> %q: %q, %v, %v", c.expected, c.desired, v, set, err)
			}
		}
		if _, set, _ := s.CompareAndSet(ctx, "never", []byte(""), []byte("x")); set {
			t.Error("an empty expected value matched a missing key")
		}
		if was, err := s.Delete(ctx, "k"); err != nil || !was {
			t.Errorf("delete: %v, %v", was, err)
		}
		if was, err := s.Delete(ctx, "k"); err != nil || was {
			t.Errorf("delete again: %v, %v", was, err)
		}
	})
}

func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		long := strings.Repeat("k", store.MaxKey+1)
		if err := s.Set(ctx, "v", make([]byte, store.MaxValue)); err != nil {
			t.Error(err)
		}
		if v, err := s.Get(ctx, "v"); err != nil || len(v) != store.MaxValue {
			t.Errorf("largest value: %d bytes, %v", len(v), err)
		}
		if err := s.Set(ctx, "v", make([]byte, store.MaxValue+1)); err == nil {
			t.Error("a value over the limit was taken")
		}
		if _, err := s.Get(ctx, long); err == nil {
			t.Error("a key over the limit was taken")
		}
		if err := s.Set(ctx, "", nil); err == nil && !strings.Contains(t.Name(), "prefix") {
			t.Error("an empty key was taken")
		}
		if err := s.Set(ctx, "after", nil); err != nil {
			t.Errorf("a refused call broke the store: %v", err)
		}
	})
}

func TestWaitingCallsHoldUpNobody(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if v, err := s.Get(ctx, "late"); err != nil || string(v) != "now" {
					t.Errorf("get %d: %q, %v", i, v, err)
				}
				if err := s.Wait(ctx, "late", "later", "latest"); err != nil {
					t.Errorf("wait %d: %v", i, err)
				}
			})
		}
		for i := range 20 {
			if err := s.Set(ctx, fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range []string{"latest", "late", "later"} {
			if err := s.Set(ctx, k, []byte("now")); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
	})
}

func TestCancelledCall(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.Get(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "never") {
			t.Errorf("get: %v", err)
		}
		if err := s.Wait(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait after the end: %v", err)
		}
		if err := s.Set(t.Context(), "never", []byte("x")); err != nil {
			t.Error(err)
		}
		if v, err := s.Get(t.Context(), "never"); err != nil || string(v) != "x" {
			t.Errorf("the store does not work after a cancelled call: %q, %v", v, err)
		}
	})
}

func TestServerDies(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	c, l := dial(t, s), s.Local()
	var wg sync.WaitGroup
	for _, st := range []store.Store{c, l} {
		wg.Go(func() {
			if _, err := st.Get(t.Context(), "never"); !errors.Is(err, store.ErrClosed) {
				t.Errorf("pending get: %v", err)
			}
		})
		wg.Go(func() {
			if err := st.Wait(t.Context(), "a", "b"); !errors.Is(err, store.ErrClosed) {
				t.Errorf("pending wait: %v", err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	_ = s.Close()
	wg.Wait()
	<-c.Done()
	if err := c.Set(t.Context(), "k", nil); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("set: %v", err)
	}
	if err := l.Set(t.Context(), "k", nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("local set: %v", err)
	}
}

func TestPrefixKeepsAttemptsApart(t *testing.T) {
	s := open(t, "127.0.0.1:0").Local()
	a, b := store.Prefix(s, "run/0"), store.Prefix(s, "run/1")
	if err := a.Set(t.Context(), "k", []byte("old")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if v, err := b.Get(ctx, "k"); err == nil {
		t.Errorf("attempt 1 reads %q of attempt 0", v)
	}
}

func TestWrongToken(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	refused := make(chan error, 1)
	s.OnRefused(func(remote string, cause error) { refused <- fmt.Errorf("%s: %w", remote, cause) })
	begin := time.Now()
	_, err := store.Dial(t.Context(), s.Addr(), "another")
	if !errors.Is(err, store.ErrNotAdmitted) || exitcode.Of(err) != exitcode.Rendezvous {
		t.Errorf("dial: %v", err)
	}
	if strings.Contains(err.Error(), "another") || strings.Contains(err.Error(), token) {
		t.Errorf("a token is shown: %v", err)
	}
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("took %v: a wrong token is not tried again", d)
	}
	if err := <-refused; !strings.Contains(err.Error(), "127.0.0.1:") {
		t.Errorf("report: %v", err)
	}
	if _, err := store.Listen(t.Context(), "127.0.0.1:0", ""); err == nil {
		t.Error("a store without a token")
	}
}

func TestPortTaken(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	_, err := store.Listen(t.Context(), s.Addr(), token)
	if err == nil || exitcode.Of(err) != exitcode.Machine || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("listen: %v", err)
	}
}

func TestDialWaitsForTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err = store.Dial(ctx, addr, token)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), addr) {
		t.Errorf("nobody listens: %v", err)
	}

	up := make(chan *store.Server)
	go func() {
		time.Sleep(40 * time.Millisecond)
		s, err := store.Listen(context.Background(), addr, token)
		if err != nil {
			t.Error(err)
		}
		up <- s
	}()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := store.Dial(ctx, addr, token)
	s := <-up
	if err != nil {
		t.Fatalf("the server came up later: %v", err)
	}
	_ = c.Close()
	_ = s.Close()
}

// stranger accepts connections and runs talk on each.
func stranger(t *testing.T, talk func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				talk(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func TestStrangers(t *testing.T) {
	for name, talk := range map[string]func(net.Conn){
		"closes": func(net.Conn) {},
		"banner": func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); _, _ = c.Read(make([]byte, 64)) },
		"http": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 64))
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		},
		"echo":    func(c net.Conn) { b := make([]byte, 256); n, _ := c.Read(b); _, _ = c.Write(b[:n]); _, _ = c.Read(b) },
		"silence": func(c net.Conn) { b := make([]byte, 256); _, _ = c.Read(b); _, _ = c.Read(b) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := stranger(t, talk)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c, err := store.Dial(ctx, addr, token)
			if err == nil {
				_ = c.Close()
				t.Fatal("a stranger passed for a store")
			}
			if errors.Is(err, context.DeadlineExceeded) || exitcode.Of(err) != exitcode.Rendezvous {
				t.Errorf("dial: %v", err)
			}
			if !errors.Is(err, store.ErrNotStore) && !errors.Is(err, store.ErrNotAdmitted) {
				t.Errorf("dial: %v", err)
			}
		})
	}
}

func TestSilentStrangersTakeNoPlace(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	for range 20 {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	if err := dial(t, s).Set(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
}

// TestGarbage sends admitted and not admitted nonsense and checks that the
// server lives on and keeps nothing of it.
func TestGarbage(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, b := range [][]byte{
		nil, []byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{0xff}, 64<<10),
		append([]byte("ddprun\x01s"), bytes.Repeat([]byte{0xff}, 1<<16)...),
	} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		_ = c.Close()
	}
	if err := dial(t, s).Set(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
}
