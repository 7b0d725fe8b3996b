package rankenv

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env is what a rank is told about itself and its job.
type Env struct {
	Rank           int // RANK, 0 <= Rank < WorldSize
	LocalRank      int // LOCAL_RANK, place on this node
	WorldSize      int // WORLD_SIZE, ranks of the job
	LocalWorldSize int // LOCAL_WORLD_SIZE, ranks on this node
	GroupRank      int // GROUP_RANK, index of this node
	GroupWorldSize int // GROUP_WORLD_SIZE, nodes of the job
	RoleName       string
	RoleRank       int // ROLE_RANK, counted over nodes of the same role
	RoleWorldSize  int

	MasterAddr string // MASTER_ADDR, where rank 0 may listen
	MasterPort int    // MASTER_PORT

	RunID        string // TORCHELASTIC_RUN_ID
	Attempt      int    // DDPRUN_ATTEMPT, the same on every rank, never used twice in a run
	RestartCount int    // TORCHELASTIC_RESTART_COUNT, restarts since the launcher began
	MaxRestarts  int    // TORCHELASTIC_MAX_RESTARTS
	ErrorFile    string // TORCHELASTIC_ERROR_FILE, where the rank may say why it ended

	Store  string // DDPRUN_STORE, host:port of the launcher's store
	Token  string // DDPRUN_TOKEN, admits to the store; a secret
	RunDir string // DDPRUN_RUN_DIR, absolute

	Timeout        time.Duration // DDPRUN_TIMEOUT, deadline of one collective; 0: not set
	BarrierTimeout time.Duration // DDPRUN_DEBUG_BARRIER; 0: off
	Progress       string        // DDPRUN_PROGRESS, one of the Progress constants
}

// How a rank may show progress: the launcher reads its output through a pipe,
// so the rank cannot see whether a terminal is at the other end.
const (
	ProgressBar   = "bar"   // frames that end in a carriage return are redrawn
	ProgressLines = "lines" // whole lines only
)

// owned are the variables that Environ sets; values of the same name that the
// launcher inherited never reach a rank.
var owned = []string{
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
	"GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE",
	"MASTER_ADDR", "MASTER_PORT",
	"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
	"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE",
	"DDPRUN_ATTEMPT", "DDPRUN_STORE", "DDPRUN_TOKEN", "DDPRUN_RUN_DIR",
	"DDPRUN_TIMEOUT", "DDPRUN_DEBUG_BARRIER", "DDPRUN_PROGRESS",
}

// shape are the variables that would change the shape of a run if a launcher
// believed them.
var shape = []string{
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
	"GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
	"MASTER_ADDR", "MASTER_PORT",
}

// Leftovers returns the names of rank variables found in environ, the
// launcher's own environment. They come from an earlier shell or from another
// launcher, and are not believed.
func Leftovers(environ []string) []string {
	var found []string
	for _, name := range shape {
		if has(environ, name) {
			found = append(found, name)
		}
	}
	return found
}

// ByHand says whether environ looks like that of a rank that somebody starts by
// hand, as one does with python: it says which rank, or how many there are.
func ByHand(environ []string) bool { return has(environ, "RANK") || has(environ, "WORLD_SIZE") }

// Environ returns base with the variables of e in place of any of the same
// name. Like torchrun it sets OMP_NUM_THREADS to 1 when several ranks share
// the node and base does not say otherwise, and switches on NCCL's
// asynchronous error handling unless base decides that.
func (e Env) Environ(base []string) []string {
	out := make([]string, 0, len(base)+len(owned)+2)
	for _, kv := range base {
		if name, _, ok := strings.Cut(kv, "="); ok && !slices.Contains(owned, name) {
			out = append(out, kv)
		}
	}
	if e.SetsThreads(base) {
		out = append(out, "OMP_NUM_THREADS=1")
	}
	if !has(base, "TORCH_NCCL_ASYNC_ERROR_HANDLING") {
		out = append(out, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1")
	}
	return append(out, e.variables()...)
}

// SetsThreads says whether Environ adds OMP_NUM_THREADS=1 to base.
func (e Env) SetsThreads(base []string) bool {
	return e.LocalWorldSize > 1 && !has(base, "OMP_NUM_THREADS")
}

// variables lists e's own variables. TORCHELASTIC_USE_AGENT_STORE is False:
// rank 0 itself serves MASTER_ADDR:MASTER_PORT.
func (e Env) variables() []string {
	n := strconv.Itoa
	vars := []string{
		"RANK=" + n(e.Rank),
		"LOCAL_RANK=" + n(e.LocalRank),
		"WORLD_SIZE=" + n(e.WorldSize),
		"LOCAL_WORLD_SIZE=" + n(e.LocalWorldSize),
		"GROUP_RANK=" + n(e.GroupRank),
		"GROUP_WORLD_SIZE=" + n(e.GroupWorldSize),
		"ROLE_NAME=" + e.RoleName,
		"ROLE_RANK=" + n(e.RoleRank),
		"ROLE_WORLD_SIZE=" + n(e.RoleWorldSize),
		"MASTER_ADDR=" + e.MasterAddr,
		"MASTER_PORT=" + n(e.MasterPort),
		"TORCHELASTIC_RUN_ID=" + e.RunID,
		"TORCHELASTIC_RESTART_COUNT=" + n(e.RestartCount),
		"TORCHELASTIC_MAX_RESTARTS=" + n(e.MaxRestarts),
		"TORCHELASTIC_ERROR_FILE=" + e.ErrorFile,
		"TORCHELASTIC_USE_AGENT_STORE=False",
		"DDPRUN_ATTEMPT=" + n(e.Attempt),
		"DDPRUN_STORE=" + e.Store,
		"DDPRUN_TOKEN=" + e.Token,
		"DDPRUN_RUN_DIR=" + e.RunDir,
	}
	if e.Timeout > 0 {
		vars = append(vars, "DDPRUN_TIMEOUT="+e.Timeout.String())
	}
	if e.BarrierTimeout > 0 {
		vars = append(vars, "DDPRUN_DEBUG_BARRIER="+e.BarrierTimeout.String())
	}
	if e.Progress != "" {
		vars = append(vars, "DDPRUN_PROGRESS="+e.Progress)
	}
	return vars
}

func has(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(kv string) bool {
		return len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name
	})
}
