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

// flagGroup is a paragraph of the help text.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

func newLaunchFlags() *launchFlags {
	f := &launchFlags{}
	group := func(title string) *pflag.FlagSet {
		set := pflag.NewFlagSet(title, pflag.ContinueOnError)
		set.SortFlags = false
		f.groups = append(f.groups, flagGroup{title, set})
		return set
	}
	g := group("Processes")
	g.StringVar(&f.nproc, "nproc-per-node", "1", "processes on this node: a `number`, auto, cpu or gpu")
	g.StringVar(&f.nnodes, "nnodes", "1", "nodes of the job: `N` or MIN:MAX (one node in this version)")
	g.StringVar(&f.nodeRank, "node-rank", "0", "`index` of this node")
	g.StringVar(&f.role, "role", "default", "role `name` that ranks see as ROLE_NAME")

	g = group("Job files")
	g.StringArrayVar(&f.set, "set", nil, "override a `key=value` of the job file (train.epochs=1); may be repeated")
	g.StringVar(&f.timeout, "timeout", "", "`deadline` of one collective, such as 90s")
	g.StringVar(&f.debugBarrier, "debug-barrier", "", "name the ranks that do not reach a barrier within this `time`")
	g.Lookup("debug-barrier").NoOptDefVal = "30s"

	g = group("Programs")
	g.BoolVarP(&f.module, "module", "m", false, "run PROGRAM as a Python module (python -m)")
	g.BoolVar(&f.noPython, "no-python", false, "run PROGRAM itself, even if its name ends in .py")

	g = group("Failures and stopping")
	g.StringVar(&f.maxRestarts, "max-restarts", "0", "`times` the whole job may be started again after a failure")
	g.StringVar(&f.shutdownTimeout, "shutdown-timeout", "30", "`seconds` (or 10m) between asking ranks to end and killing them")

	g = group("Output")
	g.StringVar(&f.logDir, "log-dir", "runs", "`folder` of run directories")
	g.StringVar(&f.rdzvID, "rdzv-id", "", "`id` of the run and name of its directory (default: name, time and random digits)")
	g.StringVarP(&f.redirects, "redirects", "r", "0", "streams kept off the console: 0 none, 1 stdout, 2 stderr, 3 both; or `rank:digit,...`")
	g.StringVarP(&f.tee, "tee", "t", "0", "streams on the console in spite of --redirects, in the same form (`spec`)")
	g.StringVar(&f.localRanksFilter, "local-ranks-filter", "", "show only these local `ranks` (0,2) on the console")
	g.CountVarP(&f.verbose, "verbose", "v", "say more; -vv says most")
	g.Lookup("verbose").DefValue = "" // or help shows "(default 0)"
	g.BoolVar(&f.dryRun, "dry-run", false, "print what would be started, and start nothing")

	g = group("Meeting point")
	g.StringVar(&f.rdzvEndpoint, "rdzv-endpoint", "", "`host:port` where rank 0 listens (default on one node: loopback, a free port)")
	g.BoolVar(&f.standalone, "standalone", false, "one node, whatever the environment says about others")
	g.StringVar(&f.masterAddr, "master-addr", "", "`host` of --rdzv-endpoint, as older scripts give it")
	g.StringVar(&f.masterPort, "master-port", "", "`port` of --rdzv-endpoint, as older scripts give it")
	g.StringVar(&f.rdzvBackend, "rdzv-backend", "", "static or c10d; accepted, makes no difference (`name`)")
	g.StringVar(&f.rdzvConf, "rdzv-conf", "", "`key=value,...` of the rendezvous; checked, without effect on one node")
	g.StringVar(&f.localAddr, "local-addr", "", "`address` of this node as peers see it; without effect on one node")

	g = group("Accepted for torchrun's sake, without effect")
	g.StringVar(&f.monitorInterval, "monitor-interval", "", "`seconds`")
	g.StringVar(&f.startMethod, "start-method", "", "`name`")
	g.StringVar(&f.eventHandler, "event-log-handler", "", "`name`")
	return f
}

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
