package launcher

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/logs"
	"github.com/ddprun/ddprun/launcher/proc"
)

// MaxRanks bounds the ranks of one node.
const MaxRanks = 4096

// Config is a job to run on this node.
type Config struct {
	Name    string  // begins a run id that is made here; letters, digits, "._-"
	RunID   string  // empty: made from Name and the time
	LogDir  string  // parent of the run directory
	Command Command // what every rank executes
	Ranks   int     // on this node
	Role    string  // ROLE_NAME; empty: default
	// Worker: the command is this project's own trainer, whose error report is
	// the cause in its own words.
	Worker bool

	MaxRestarts int           // of the whole job
	Grace       time.Duration // between a stop signal and KILL
	// NoRetry are exit codes after which a restart is useless, beside those
	// that always are: usage, not found, not executable.
	NoRetry []int

	// Master is where rank 0 may listen. An empty address is 127.0.0.1, port 0
	// is a free port, a new one for each attempt. Ignored with a Rendezvous.
	Master     Endpoint
	Rendezvous Rendezvous // nil: this node is the whole job

	Timeout        time.Duration // passed to ranks: deadline of one collective; 0: theirs
	BarrierTimeout time.Duration // passed to ranks; 0: off

	// Output says what of a local rank's two streams is shown on the console;
	// nil: everything.
	Output func(localRank int) (stdout, stderr bool)

	Environ []string          // inherited environment of the ranks
	Console *logs.Console     // where output is shown
	Log     *zap.Logger       // the launcher's own messages; never values of variables
	Signals <-chan os.Signal  // what Signals lists, as it arrives
	Files   map[string][]byte // written into the run directory before ranks start
	Proc    proc.Options
}

// Command is what a rank executes. In its arguments and the values of Env,
// ${local_rank} stands for the local rank.
type Command struct {
	Args []string
	Env  map[string]string // added to the environment
	// RankEnv has variables of single ranks, by local rank; it may be shorter
	// than the ranks are many.
	RankEnv []map[string]string
	Dir     string // working folder; empty: the launcher's
}

// Endpoint is a host and a port.
type Endpoint struct {
	Addr string
	Port int
}

// check fills defaults in and refuses what cannot be meant.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Command.Args) == 0 || c.Command.Args[0] == "" {
		bad("no command to run")
	}
	if c.Ranks < 1 || c.Ranks > MaxRanks {
		bad("%d processes on this node: want 1 to %d", c.Ranks, MaxRanks)
	}
	if c.MaxRestarts < 0 {
		bad("max restarts is %d: want 0 or more", c.MaxRestarts)
	}
	if c.Grace < 0 {
		bad("shutdown timeout is %v: want 0 or more", c.Grace)
	}
	if c.RunID == "" {
		c.RunID = NewRunID(c.Name, time.Now())
	}
	if err := CheckRunID(c.RunID); err != nil {
		errs = append(errs, err)
	}
	if c.Console == nil {
		bad("no console")
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.LogDir == "" {
		c.LogDir = "runs"
	}
	if c.Role == "" {
		c.Role = "default"
	}
	return exitcode.With(errors.Join(errs...), exitcode.Usage)
}
