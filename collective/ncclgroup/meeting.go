package ncclgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/nccl"
)

// card is what a rank says of itself when it comes.
type card struct {
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Version nccl.Version `json:"nccl"`
	Path    string       `json:"path"`
}

func (c card) String() string {
	return fmt.Sprintf("NCCL %v (%s on %s)", c.Version, c.Path, c.Host)
}

// invitation is what rank 0 gives the others.
type invitation struct {
	ID  []byte `json:"id,omitempty"`
	Why string `json:"why,omitempty"` // there will be no group
}

var errVersions = errors.New("the ranks have different versions of NCCL")

// meet brings the ranks together: it returns the id that rank 0 has drawn once
// all ranks are there, with the same NCCL.
func (g *group) meet(ctx context.Context) (nccl.UniqueID, error) {
	host, _ := os.Hostname() // for messages only
	own := card{Host: host, PID: os.Getpid(), Version: g.lib.Version(), Path: g.lib.Path()}
	var id nccl.UniqueID
	if err := g.board.setJSON(ctx, of("hello", g.cfg.Rank), own); err != nil {
		// Another rank's failure may come between the key and its answer.
		return id, g.absent(ctx, "hello", "did not come", err)
	}
	if g.cfg.Rank == 0 {
		return g.invite(ctx, own)
	}
	var inv invitation
	if err := g.board.getJSON(ctx, "id", &inv); err != nil {
		return id, g.absent(ctx, "hello", "did not come", err)
	}
	if inv.Why != "" {
		return id, exitcode.With(fmt.Errorf("%w: %s", errVersions, inv.Why), exitcode.Machine)
	}
	return id, id.UnmarshalBinary(inv.ID)
}

// invite is rank 0's part: it waits for all ranks, compares their libraries,
// and draws the id.
func (g *group) invite(ctx context.Context, own card) (nccl.UniqueID, error) {
	var id nccl.UniqueID
	for r := 1; r < g.cfg.Size; r++ {
		var c card
		if err := g.board.getJSON(ctx, of("hello", r), &c); err != nil {
			return id, g.absent(ctx, "hello", "did not come", err)
		}
		if c.Version != own.Version {
			why := fmt.Sprintf("rank 0 has %v, rank %d has %v; install the same on both, or name one with DDPRUN_NCCL", own, r, c)
			err := g.board.setJSON(ctx, "id", invitation{Why: why})
			return id, exitcode.With(errors.Join(fmt.Errorf("%w: %s", errVersions, why), err), exitcode.Machine)
		}
	}
	id, err := g.lib.UniqueID()
	if err != nil {
		return id, err
	}
	raw, err := id.MarshalBinary()
	if err != nil {
		return id, err
	}
	return id, g.board.setJSON(ctx, "id", invitation{ID: raw})
}

// absent explains a deadline of the meeting by the ranks that have not set
// their key.
func (g *group) absent(ctx context.Context, key, what string, err error) error {
	var f *failure
	if errors.As(context.Cause(ctx), &f) {
		return f.explain("setting up")
	}
	if !stopped(err) {
		return err
	}
	late, cancel := context.WithTimeout(context.Background(), publishLimit)
	defer cancel()
	missing, failed := g.board.missing(late, key)
	if failed != nil || len(missing) == 0 {
		return err
	}
	err = fmt.Errorf("%w: %s of %d %s within %v: %w", collective.ErrTimeout, list(missing), g.cfg.Size, what,
		time.Since(g.born).Round(time.Millisecond), context.Cause(ctx))
	return exitcode.With(err, exitcode.Rendezvous)
}

// join makes the communicator.
func (g *group) join(ctx context.Context, id nccl.UniqueID) (communicator, error) {
	comm, err := g.lib.initRank(ctx, g.cfg.Size, id, g.cfg.Rank, g.cfg.Comm)
	if err != nil {
		if ctx.Err() != nil {
			err = g.absent(ctx, "up", "did not get NCCL up (NCCL_DEBUG=INFO shows how far it comes)", ctx.Err())
		}
		return nil, err
	}
	if err := g.board.store.Set(ctx, of("up", g.cfg.Rank), said); err != nil {
		g.warn("telling the store that NCCL is up: %v", err)
	}
	return comm, nil
}
