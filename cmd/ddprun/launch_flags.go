package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// launchFlags are the flags of a launch as given. Values stay text until they
// are read together, so that one report names every bad one.
type launchFlags struct {
	groups []flagGroup
	all    *pflag.FlagSet

	nproc, nnodes, nodeRank                     string
	rdzvID, rdzvEndpoint, rdzvBackend, rdzvConf string
	standalone                                  bool
	masterAddr, masterPort, localAddr           string
	maxRestarts, shutdownTimeout                string
	logDir, redirects, tee, localRanksFilter    string
	verbose                                     int
	set                                         []string
	dryRun                                      bool
	timeout, debugBarrier, role                 string
	module, noPython                            bool
	monitorInterval, startMethod, eventHandler  string
}

func newLaunchFlags() *launchFlags {
	f := &launchFlags{}

	g := f.group("Processes")
	g.text(&f.nproc, "nproc-per-node", "1", "N", "processes on this node; gpu or cpu: one for each; auto: GPUs if any")
	g.text(&f.nnodes, "nnodes", "1", "N", "nodes of the job, or MIN:MAX; one in this version")
	g.text(&f.nodeRank, "node-rank", "0", "N", "this node's place, from 0")
	g.text(&f.role, "role", "default", "NAME", "what ranks see as ROLE_NAME")

	g = f.group("Job files")
	g.set.StringArrayVar(&f.set, "set", nil, "override a key of the job, as train.epochs=1; may be repeated")
	g.value("set", "KEY=VALUE")
	g.text(&f.timeout, "timeout", "", "TIME", "deadline of one collective, such as 90s")
	g.text(&f.debugBarrier, "debug-barrier", "", "TIME", "passed to programs as DDPRUN_DEBUG_BARRIER (30s); not for jobs in this version")
	g.set.Lookup("debug-barrier").NoOptDefVal = "30s"

	g = f.group("Programs")
	g.set.BoolVarP(&f.module, "module", "m", false, "run PROGRAM as a Python module (python -m)")
	g.set.BoolVar(&f.noPython, "no-python", false, "run PROGRAM itself, even if its name ends in .py")

	g = f.group("Failures and stopping")
	g.text(&f.maxRestarts, "max-restarts", "0", "N", "start the whole job again after a failure, up to N times")
	g.text(&f.shutdownTimeout, "shutdown-timeout", "30", "TIME", "seconds, or 10m, from asking ranks to end to killing them")

	g = f.group("Output")
	g.text(&f.logDir, "log-dir", "runs", "FOLDER", "where run directories lie")
	g.text(&f.rdzvID, "rdzv-id", "", "ID", "run id, the name of its directory (default: name, time, digits)")
	g.short(&f.redirects, "redirects", "r", "0", "SPEC", "keep off the console: 1 stdout, 2 stderr, 3 both; or RANK:DIGIT,...")
	g.short(&f.tee, "tee", "t", "0", "SPEC", "show in spite of --redirects, in the same form")
	g.text(&f.localRanksFilter, "local-ranks-filter", "", "RANKS", "show only these local ranks on the console, as 0,2")
	g.set.CountVarP(&f.verbose, "verbose", "v", "say more; -vv says most")
	g.set.Lookup("verbose").DefValue = "" // or help shows "(default 0)"
	g.set.BoolVar(&f.dryRun, "dry-run", false, "print what would be started, and start nothing")

	g = f.group("Meeting point")
	g.text(&f.rdzvEndpoint, "rdzv-endpoint", "", "HOST:PORT", "where rank 0 listens (default: loopback, a free port)")
	g.set.BoolVar(&f.standalone, "standalone", false, "one node and a free port, whatever the environment says")
	g.text(&f.masterAddr, "master-addr", "", "HOST", "host of --rdzv-endpoint, as older scripts give it")
	g.text(&f.masterPort, "master-port", "", "PORT", "port of --rdzv-endpoint, as older scripts give it")
	g.text(&f.rdzvBackend, "rdzv-backend", "", "NAME", "static or c10d; makes no difference")
	g.text(&f.rdzvConf, "rdzv-conf", "", "K=V,...", "settings of the rendezvous; without effect on one node")
	g.text(&f.localAddr, "local-addr", "", "ADDRESS", "this node as others see it; without effect on one node")

	g = f.group("Accepted for torchrun's sake, without effect")
	g.text(&f.monitorInterval, "monitor-interval", "", "SECONDS", "ranks are waited for, not polled")
	g.text(&f.startMethod, "start-method", "", "NAME", "ranks are programs")
	g.text(&f.eventHandler, "event-log-handler", "", "NAME", "summary.json has the events")
	return f
}

// flagGroup is a paragraph of the help text.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

func (f *launchFlags) group(title string) flagGroup {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	f.groups = append(f.groups, flagGroup{title, set})
	return f.groups[len(f.groups)-1]
}

// text adds a flag that takes a value, which help calls by the name value.
func (g flagGroup) text(p *string, name, def, value, usage string) {
	g.short(p, name, "", def, value, usage)
}

func (g flagGroup) short(p *string, name, letter, def, value, usage string) {
	g.set.StringVarP(p, name, letter, def, usage)
	g.value(name, value)
}

func (g flagGroup) value(name, value string) {
	_ = g.set.SetAnnotation(name, valueName, []string{value}) // fails for unknown names only
}

// valueName is the annotation of a flag that names its value.
const valueName = "ddprun_value"

// foreign are flags of torchrun that this program does not have, with the
// reason.
var foreign = map[string]string{
	"run-path":                 "ranks are always started as programs",
	"logs-specs":               "it names a Python plug-in; --log-dir, --redirects and --tee are built in",
	"numa-binding":             "CPU binding is not available in this version; start the program through numactl",
	"virtual-local-rank":       "use ${local_rank} in the program's arguments, or LOCAL_RANK",
	"signals-to-handle":        "INT, TERM, HUP and QUIT stop the job; USR1, USR2, CONT and WINCH are passed on",
	"duplicate-stdout-filters": "log files hold everything; filter them afterwards",
	"duplicate-stderr-filters": "log files hold everything; filter them afterwards",
}

// parse reads flags up to the first word that is none. With more, flags may
// also stand behind it.
func (f *launchFlags) parse(args []string, more bool) ([]string, error) {
	f.all.SetInterspersed(more)
	if err := f.all.Parse(args); err != nil {
		return nil, f.explain(err)
	}
	if asked, err := f.all.GetBool("help"); err == nil && asked {
		return nil, pflag.ErrHelp
	}
	return f.all.Args(), nil
}

func (f *launchFlags) explain(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return exitcode.With(fmt.Errorf("%w (ddprun --help lists the flags)", err), exitcode.Usage)
	}
	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	if shorts := unknown.GetSpecifiedShortnames(); shorts != "" {
		return exitcode.With(fmt.Errorf("unknown flag -%s%s", shorts, f.suggestion(shorts)), exitcode.Usage)
	}
	if why, ok := foreign[name]; ok {
		return exitcode.With(fmt.Errorf("--%s is torchrun's and not available here: %s", name, why), exitcode.Usage)
	}
	return exitcode.With(fmt.Errorf("unknown flag --%s%s", name, f.suggestion(name)), exitcode.Usage)
}

// suggestion names the known flag that was probably meant.
func (f *launchFlags) suggestion(name string) string {
	best, distance := "", len(name)/2+1
	f.all.VisitAll(func(flag *pflag.Flag) {
		d := editDistance(name, flag.Name)
		if strings.HasPrefix(flag.Name, name) {
			d = 0
		}
		if d < distance {
			best, distance = flag.Name, d
		}
	})
	if best == "" {
		return " (ddprun --help lists the flags; flags of the program stand behind its name)"
	}
	return fmt.Sprintf("; did you mean --%s? (flags of the program stand behind its name)", best)
}

// editDistance counts the letters to insert, delete or change.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// notFromEnvironment have no default in the environment: they belong to one
// command line.
var notFromEnvironment = []string{"help", "set", "dry-run", "verbose"}

// readEnvironment gives flags that are not on the command line the value of
// their PET_ variable, as torchrun does: --nproc-per-node has
// PET_NPROC_PER_NODE. An empty variable counts as not set.
func (f *launchFlags) readEnvironment(lookup func(string) (string, bool)) error {
	var errs []error
	f.all.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || slices.Contains(notFromEnvironment, flag.Name) {
			return
		}
		name := "PET_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		if flag.Value.Type() == "bool" {
			n, err := strconv.Atoi(value)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s is %q: want 1 or 0", name, value))
				return
			}
			value = strconv.FormatBool(n != 0)
		}
		if err := f.all.Set(flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	return exitcode.With(errors.Join(errs...), exitcode.Usage)
}

func (f *launchFlags) given(name string) bool { return f.all.Changed(name) }
