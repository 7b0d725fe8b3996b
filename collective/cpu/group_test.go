package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/collectivetest"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// TestSumsGoInRankOrder checks what only this backend promises: the bits of a
// plain loop over the ranks, for every size and algorithm.
func TestSumsGoInRankOrder(t *testing.T) {
	leakless(t)
	for _, n := range []int{2, 3, 4, 7} {
		groups := opener(time.Minute)(t, n)
		for _, count := range []int{1, 100, 8192, 8193, 50_000, 700_001} {
			in := make([][]float32, n)
			want := make([]float32, count)
			for r := range in {
				rng := rand.New(rand.NewPCG(uint64(count), uint64(r)))
				in[r] = make([]float32, count)
				for i := range in[r] {
					in[r][i] = float32(rng.NormFloat64())
					if r == 0 {
						want[i] = in[r][i]
					} else {
						want[i] += in[r][i]
					}
				}
			}
			asRanks(groups, func(r int, g collective.Group) {
				if err := g.AllReduce(collective.HostBuffer(in[r]), collective.Sum).Wait(context.Background()); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			})
			for r, got := range in {
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%d ranks, %d elements: element %d on rank %d is %v, want %v", n, count, i, r, got[i], want[i])
					}
				}
			}
		}
		asRanks(groups, func(_ int, g collective.Group) { _ = g.Close() })
	}
}

func asRanks(groups []collective.Group, f func(r int, g collective.Group)) {
	var wg sync.WaitGroup
	for r, g := range groups {
		wg.Go(func() { f(r, g) })
	}
	wg.Wait()
}

func listen(t *testing.T) *store.Server {
	t.Helper()
	s, err := store.Listen(t.Context(), "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTCP runs part of the suite over TCP.
func TestTCP(t *testing.T) {
	leakless(t)
	for _, host := range []string{"127.0.0.1", "::1", ""} {
		t.Run("host "+host, func(t *testing.T) {
			if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
				t.Skip(err)
			} else {
				_ = l.Close()
			}
			s := listen(t)
			var wg sync.WaitGroup
			for r := range 3 {
				wg.Go(func() {
					cfg := cpu.Config{Rank: r, Size: 3, Store: s.Local(), Token: token, TCP: true}
					if host != "" {
						// An address of documentation comes first: it never answers.
						cfg.Hosts = []string{"192.0.2.1", host}
					}
					g, err := cpu.New(t.Context(), cfg)
					if err != nil {
						t.Errorf("rank %d: %v", r, err)
						return
					}
					for _, count := range []int{1, 1000, 2_000_003} {
						v := make([]float32, count)
						v[count-1] = float32(r + 1)
						if err := g.AllReduce(collective.HostBuffer(v), collective.Sum).Wait(t.Context()); err != nil || v[count-1] != 6 {
							t.Errorf("rank %d: %v, %v", r, v[count-1], err)
						}
					}
					_ = g.Close()
				})
			}
			wg.Wait()
		})
	}
}

func TestTCPConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the local sockets have the whole suite")
	}
	leakless(t)
	collectivetest.Missing(t, func(t *testing.T, size int) []collective.Group {
		s := listen(t)
		groups := make([]collective.Group, size)
		var wg sync.WaitGroup
		for r := range size {
			wg.Go(func() {
				cfg := cpu.Config{Rank: r, Size: size, Store: s.Local(), Token: token, Timeout: 300 * time.Millisecond, TCP: true, Hosts: []string{"127.0.0.1"}}
				var err error
				if groups[r], err = cpu.New(t.Context(), cfg); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return groups
	})
}

func TestInitNamesMissingRanks(t *testing.T) {
	leakless(t)
	s := listen(t)
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	timeouts := 0
	for _, r := range []int{0, 2} {
		wg.Go(func() {
			_, err := cpu.New(ctx, cpu.Config{Rank: r, Size: 5, Store: s.Local(), Token: token, Name: "g"})
			if err == nil || exitcode.Of(err) != exitcode.Rendezvous || !strings.Contains(err.Error(), "ranks [1 3 4] of 5 did not appear") {
				t.Errorf("rank %d: %v", r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, collective.ErrTimeout) {
				timeouts++
			}
		})
	}
	wg.Wait()
	if timeouts == 0 {
		t.Error("nobody says that it is a time-out")
	}
}

// TestInitFailureIsShared has one rank with impossible arguments: the other
// must not wait for its own time-out.
func TestInitFailureIsShared(t *testing.T) {
	leakless(t)
	s := listen(t)
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			_, err := cpu.New(t.Context(), cpu.Config{Rank: r, Size: 2 + r, Store: s.Local(), Token: token, Timeout: time.Minute})
			if err == nil || !strings.Contains(err.Error(), "a group of 2") || !strings.Contains(err.Error(), "one of 3") {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
}

func TestWrongTokenIsRefused(t *testing.T) {
	leakless(t)
	s := listen(t)
	var wg sync.WaitGroup
	for r, tok := range []string{token, "another"} {
		wg.Go(func() {
			_, err := cpu.New(t.Context(), cpu.Config{Rank: r, Size: 2, Store: s.Local(), Token: tok, Timeout: 20 * time.Second})
			if err == nil || !strings.Contains(err.Error(), "token differs") || strings.Contains(err.Error(), tok) {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
}

// TestStrangersTakeNoPlace plays the stranger at rank 0's socket before rank 1
// comes.
func TestStrangersTakeNoPlace(t *testing.T) {
	leakless(t)
	s := listen(t)
	var wg sync.WaitGroup
	join := func(r int) {
		wg.Go(func() {
			g, err := cpu.New(t.Context(), cpu.Config{Rank: r, Size: 2, Store: s.Local(), Token: token, Timeout: time.Minute})
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
				return
			}
			if err := g.Barrier().Wait(t.Context()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			_ = g.Close()
		})
	}
	join(0)
	card, err := s.Local().Get(t.Context(), "world/rank/0")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(card), "\n")
	name := lines[len(lines)-1]
	if name == "" {
		t.Skip("no local sockets on this system")
	}
	for i := range 12 {
		c, err := net.Dial("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		switch i % 3 {
		case 0:
			_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		case 1:
			_, _ = fmt.Fprintf(c, "ddprun\x01m0123456789abcdef\x00\x091 0 2 world%032d", 0)
		}
	}
	join(1)
	wg.Wait()
}

func TestConfig(t *testing.T) {
	s := listen(t).Local()
	for name, cfg := range map[string]cpu.Config{
		"rank":     {Rank: 2, Size: 2, Store: s, Token: "t"},
		"negative": {Rank: -1, Size: 2, Store: s, Token: "t"},
		"size":     {Rank: 0, Size: 0, Store: s, Token: "t"},
		"store":    {Rank: 0, Size: 2, Token: "t"},
		"token":    {Rank: 0, Size: 2, Store: s},
		"timeout":  {Rank: 0, Size: 2, Store: s, Token: "t", Timeout: -1},
		"name":     {Rank: 0, Size: 2, Store: s, Token: "t", Name: strings.Repeat("x", 1000)},
	} {
		if _, err := cpu.New(t.Context(), cfg); !errors.Is(err, collective.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g, err := cpu.New(t.Context(), cpu.Config{Size: 1})
	if err != nil {
		t.Errorf("a group of one needs neither store nor token: %v", err)
	}
	_ = g.Close()
}

func TestTwoGroupsOfOneRun(t *testing.T) {
	leakless(t)
	s := listen(t)
	var wg sync.WaitGroup
	for r := range 2 {
		for _, name := range []string{"world", "evaluation"} {
			wg.Go(func() {
				g, err := cpu.New(t.Context(), cpu.Config{Rank: r, Size: 2, Store: s.Local(), Token: token, Name: name})
				if err != nil {
					t.Errorf("%s: rank %d: %v", name, r, err)
					return
				}
				if err := g.Barrier().Wait(t.Context()); err != nil {
					t.Errorf("%s: rank %d: %v", name, r, err)
				}
				_ = g.Close()
			})
		}
	}
	wg.Wait()
}
