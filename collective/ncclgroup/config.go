package ncclgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/nccl"
)

// Defaults of Config.
const (
	DefaultTimeout     = 10 * time.Minute
	DefaultInitTimeout = 5 * time.Minute
	DefaultSilence     = 30 * time.Second
)

// Check says which operations are compared with the other ranks' before they
// are issued. NCCL itself compares nothing: ranks that disagree hang, or get
// wrong numbers. A comparison is one round trip to the store, on the
// executor's thread; operations on host buffers and barriers, which wait for
// the host anyway, are always compared.
type Check uint8

// Checks. All ranks must use the same.
const (
	// CheckStart compares the first thousand operations: every kind of
	// operation of a step comes by in them.
	CheckStart Check = iota
	// CheckAll compares every operation, for debugging.
	CheckAll
)

// checkedAtStart is the number of operations that CheckStart compares.
const checkedAtStart = 1000

// Config describes this rank's place in a group.
type Config struct {
	Rank, Size int
	// Store is where the ranks meet. Its keys must belong to this run and
	// attempt alone (store.Prefix); a group's name may be used once in it.
	Store store.Store
	// Device is the rank's GPU.
	Device Device
	// Library is the NCCL to use; nil opens it (nccl.Open).
	Library *nccl.Library
	// Comm are settings of the communicator; Name is the group's.
	Comm nccl.Config
	// Timeout is the deadline of one operation, counted from when the
	// operation before it is done and the device has reached it: neither a
	// queue nor a long computation counts. Zero means DefaultTimeout.
	Timeout time.Duration
	// InitTimeout is the deadline of New; zero means DefaultInitTimeout.
	InitTimeout time.Duration
	// Name tells groups apart, in keys and in messages; empty means "world".
	Name string
	// Check says which operations are compared between ranks.
	Check Check
	// Silence is how long the next rank's process may give no sign of life
	// before it counts as lost, where NCCL does not notice (over NVLink it
	// does not). Zero means DefaultSilence.
	Silence time.Duration
	// Warn takes what does not break the group but should be known, from any
	// goroutine; nil drops it.
	Warn func(text string)
}

func (c *Config) complete() error {
	switch {
	case c.Size < 1 || c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("rank %d of a group of %d", c.Rank, c.Size)
	case c.Store == nil:
		return errors.New("no store to meet the other ranks in")
	case c.Device == nil:
		return errors.New("no device")
	case c.Timeout < 0 || c.InitTimeout < 0 || c.Silence < 0:
		return fmt.Errorf("a negative time: timeout %v, init timeout %v, silence %v", c.Timeout, c.InitTimeout, c.Silence)
	case c.Check > CheckAll:
		return fmt.Errorf("unknown check %d", c.Check)
	}
	for _, d := range []struct {
		at *time.Duration
		to time.Duration
	}{{&c.Timeout, DefaultTimeout}, {&c.InitTimeout, DefaultInitTimeout}, {&c.Silence, DefaultSilence}} {
		if *d.at == 0 {
			*d.at = d.to
		}
	}
	if c.Name == "" {
		c.Name = "world"
	}
	c.Comm.Name = c.Name
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	return nil
}

// New joins the group: it returns when all ranks have. The error names the
// ranks that are missing when ctx or the deadline ends first (ErrTimeout, exit
// class Rendezvous), or the ranks whose NCCL differs (exit class Machine).
func New(ctx context.Context, cfg Config) (collective.Group, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("nccl group: %w: %w", collective.ErrInvalid, err)
	}
	if cfg.Library == nil {
		l, err := nccl.Open()
		if err != nil {
			return nil, fmt.Errorf("group %q, rank %d: %w", cfg.Name, cfg.Rank, err)
		}
		cfg.Library = l
	}
	g, err := open(ctx, cfg, loaded{cfg.Library})
	if err != nil {
		return nil, fmt.Errorf("group %q, rank %d: %w", cfg.Name, cfg.Rank, err)
	}
	return g, nil
}
