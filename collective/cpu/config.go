package cpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/store"
)

// DefaultTimeout is the deadline of a collective when Config has none.
const DefaultTimeout = 30 * time.Minute

// Config describes this rank's place in a group.
type Config struct {
	Rank, Size int
	// Store is where the ranks meet. Its keys must belong to this run and
	// attempt alone (store.Prefix); a group's name may be used once in it.
	Store store.Store
	// Token proves that a connection comes from a rank of the job.
	Token string
	// Timeout is the deadline of one collective, and of New; zero means
	// DefaultTimeout.
	Timeout time.Duration
	// Name tells groups apart, in keys and in messages; empty means "world".
	Name string
	// Hosts are the addresses of this machine that ranks on other machines may
	// try, without port. Empty means all addresses of interfaces that are up.
	Hosts []string
	// TCP keeps ranks of one machine off local sockets, to measure or to find
	// a fault.
	TCP bool
}

func (c *Config) complete() error {
	if c.Size < 1 || c.Rank < 0 || c.Rank >= c.Size {
		return fmt.Errorf("rank %d of a group of %d", c.Rank, c.Size)
	}
	if c.Size > 1 && c.Store == nil {
		return errors.New("no store to meet the other ranks in")
	}
	if c.Size > 1 && c.Token == "" {
		return errors.New("no token to tell ranks from strangers")
	}
	if c.Timeout < 0 {
		return fmt.Errorf("timeout %v", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Name == "" {
		c.Name = "world"
	}
	if len(c.Name) > maxName {
		return fmt.Errorf("a name of %d bytes is longer than %d", len(c.Name), maxName)
	}
	return nil
}

// New joins the group: it returns when this rank is connected to all others.
// When ctx or the timeout ends first, the error (ErrTimeout, exit class
// Rendezvous) names the ranks that are missing.
func New(ctx context.Context, cfg Config) (collective.Group, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("cpu group: %w: %w", collective.ErrInvalid, err)
	}
	if cfg.Size == 1 {
		return solo(cfg.Name), nil
	}
	fds, err := connectAll(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("group %q, rank %d: %w", cfg.Name, cfg.Rank, err)
	}
	g, err := start(cfg, fds)
	if err != nil {
		closeAll(fds)
		return nil, fmt.Errorf("group %q, rank %d: %w", cfg.Name, cfg.Rank, err)
	}
	return g, nil
}
