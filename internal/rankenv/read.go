package rankenv

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

const (
	maxWorld   = 1 << 20 // far above any job; keeps nonsense from becoming an allocation
	maxRestart = math.MaxInt32
)

// Read takes a rank's variables from lookup (os.LookupEnv). All that are wrong
// or missing are reported together, each with the value as received and the
// range that is allowed; the error's exit code is Usage.
//
// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT must be there. When
// DDPRUN_STORE is set a launcher of this project made the environment, and what
// it always sets must be there too. Otherwise a missing node or local variable
// means one rank a node.
func Read(lookup func(string) (string, bool)) (Env, error) {
	r := reader{lookup: lookup}
	_, launched := lookup("DDPRUN_STORE")

	var e Env
	e.WorldSize = r.number("WORLD_SIZE", 1, maxWorld, required)
	e.Rank = r.below("RANK", "WORLD_SIZE", e.WorldSize, required)
	e.MasterAddr = r.text("MASTER_ADDR", "a host name or address", required)
	e.MasterPort = r.number("MASTER_PORT", 1, 65535, required)

	e.LocalWorldSize = r.number("LOCAL_WORLD_SIZE", 1, maxWorld, optional(launched, 1))
	e.LocalRank = r.below("LOCAL_RANK", "LOCAL_WORLD_SIZE", e.LocalWorldSize, optional(launched, 0))
	e.GroupWorldSize = r.number("GROUP_WORLD_SIZE", 1, maxWorld, optional(launched, e.WorldSize))
	e.GroupRank = r.below("GROUP_RANK", "GROUP_WORLD_SIZE", e.GroupWorldSize, optional(launched, e.Rank))
	e.RoleName = r.text("ROLE_NAME", "", optional(false, 0))
	e.RoleWorldSize = r.number("ROLE_WORLD_SIZE", 1, maxWorld, optional(false, e.WorldSize))
	e.RoleRank = r.below("ROLE_RANK", "ROLE_WORLD_SIZE", e.RoleWorldSize, optional(false, e.Rank))

	e.RunID = r.text("TORCHELASTIC_RUN_ID", "", optional(false, 0))
	e.RestartCount = r.number("TORCHELASTIC_RESTART_COUNT", 0, maxRestart, optional(false, 0))
	e.MaxRestarts = r.number("TORCHELASTIC_MAX_RESTARTS", 0, maxRestart, optional(false, 0))
	e.ErrorFile = r.text("TORCHELASTIC_ERROR_FILE", "", optional(false, 0))

	e.Store = r.text("DDPRUN_STORE", "host:port", optional(launched, 0))
	e.Token = r.secret("DDPRUN_TOKEN", optional(launched, 0))
	e.RunDir = r.text("DDPRUN_RUN_DIR", "a folder", optional(launched, 0))
	e.Attempt = r.number("DDPRUN_ATTEMPT", 0, maxRestart, optional(launched, e.RestartCount))
	e.Timeout = r.duration("DDPRUN_TIMEOUT")
	e.BarrierTimeout = r.duration("DDPRUN_DEBUG_BARRIER")
	e.Progress = r.oneOf("DDPRUN_PROGRESS", ProgressLines, ProgressBar)

	if len(r.faults) > 0 {
		return Env{}, exitcode.With(faults(r.faults), exitcode.Usage)
	}
	return e, nil
}

// Launched says whether a launcher of this project made the environment.
func (e Env) Launched() bool { return e.Store != "" }

type faults []string

func (f faults) Error() string {
	if len(f) == 1 {
		return "bad rank environment: " + f[0]
	}
	return fmt.Sprintf("bad rank environment, %d faults:\n  %s", len(f), strings.Join(f, "\n  "))
}

// need says what a missing variable means.
type need struct {
	must bool
	def  int
}

var required = need{must: true}

func optional(must bool, def int) need { return need{must: must, def: def} }

type reader struct {
	lookup func(string) (string, bool)
	faults []string
	bad    map[string]bool
}

func (r *reader) fault(name, format string, args ...any) {
	if r.bad == nil {
		r.bad = map[string]bool{}
	}
	r.bad[name] = true
	r.faults = append(r.faults, name+" "+fmt.Sprintf(format, args...))
}

func (r *reader) number(name string, low, high int, n need) int {
	return r.numberIn(name, fmt.Sprintf("a whole number from %d to %d", low, high), low, high, n)
}

// below reads a place in a group of size; the range is only as good as the
// group's own variable.
func (r *reader) below(name, group string, size int, n need) int {
	if r.bad[group] {
		return r.numberIn(name, "a whole number from 0 to "+group+"-1", 0, maxWorld, n)
	}
	want := fmt.Sprintf("a whole number from 0 to %d (%s is %d)", size-1, group, size)
	return r.numberIn(name, want, 0, size-1, n)
}

func (r *reader) numberIn(name, want string, low, high int, n need) int {
	text, ok := r.lookup(name)
	if !ok {
		if n.must {
			r.fault(name, "is not set, want %s", want)
			return low
		}
		return n.def
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high || text[0] == '+' {
		r.fault(name, "is %q, want %s", text, want)
		return low
	}
	return v
}

func (r *reader) text(name, want string, n need) string {
	text, ok := r.lookup(name)
	switch {
	case !ok && n.must:
		r.fault(name, "is not set, want %s", want)
	case n.must && strings.TrimSpace(text) == "":
		r.fault(name, "is %q, want %s", text, want)
	}
	return text
}

// secret is text whose value is never shown.
func (r *reader) secret(name string, n need) string {
	text, _ := r.lookup(name)
	if n.must && text == "" {
		r.fault(name, "is empty or not set")
	}
	return text
}

func (r *reader) duration(name string) time.Duration {
	text, ok := r.lookup(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.fault(name, "is %q, want a duration such as 30s", text)
		return 0
	}
	return d
}

func (r *reader) oneOf(name, def, other string) string {
	text, ok := r.lookup(name)
	if !ok {
		return def
	}
	if text != def && text != other {
		r.fault(name, "is %q, want %s or %s", text, def, other)
		return def
	}
	return text
}
