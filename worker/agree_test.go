package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// onRanks runs f as each rank of a group over sockets.
func onRanks(t *testing.T, size int, f func(g collective.Group) error) []error {
	t.Helper()
	ctx := context.Background()
	srv, err := store.Listen(ctx, "127.0.0.1:0", "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	errs := make([]error, size)
	var wg sync.WaitGroup
	for k := range size {
		wg.Go(func() {
			g, err := cpu.New(ctx, cpu.Config{Rank: k, Size: size, Store: srv.Local(), Token: "secret"})
			if err != nil {
				errs[k] = err
				return
			}
			errs[k] = f(g)
			if err := g.Close(); err != nil && errs[k] == nil {
				errs[k] = err
			}
		})
	}
	wg.Wait()
	return errs
}

func TestAgree(t *testing.T) {
	own := map[int]error{
		1: exitcode.With(errors.New("x.csv:3: bad"), exitcode.Data),
		2: exitcode.With(errors.New("disk full"), exitcode.Checkpoint),
	}
	for _, c := range []struct {
		name    string
		failing []int
		text    string
		code    int
	}{
		{"all well", nil, "", 0},
		{"one fails", []int{2}, "rank 2: disk full", exitcode.Checkpoint},
		{"two fail, the lower rank speaks", []int{1, 2}, "x.csv:3: bad", exitcode.Data},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := onRanks(t, 3, func(g collective.Group) error {
				var err error
				for _, k := range c.failing {
					if g.Rank() == k {
						err = own[k]
					}
				}
				return agree(context.Background(), g, err)
			})
			for k, err := range errs {
				if c.text == "" {
					if err != nil {
						t.Errorf("rank %d: %v", k, err)
					}
					continue
				}
				if err == nil || err.Error() != c.text || exitcode.Of(err) != c.code {
					t.Errorf("rank %d: %v (exit code %d), want %s (%d)", k, err, exitcode.Of(err), c.text, c.code)
				}
			}
		})
	}
}

func TestAgreeAlone(t *testing.T) {
	errs := onRanks(t, 1, func(g collective.Group) error {
		return agree(context.Background(), g, exitcode.With(fmt.Errorf("bad"), exitcode.Data))
	})
	if errs[0] == nil || errs[0].Error() != "bad" || exitcode.Of(errs[0]) != exitcode.Data {
		t.Errorf("%v", errs[0])
	}
}
