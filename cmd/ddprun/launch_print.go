package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddprun/ddprun/launcher"
)

// printPlan is --dry-run: what would be started, without values of variables.
func printPlan(w io.Writer, cfg launcher.Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "would start %d process(es) on this node\n", cfg.Ranks)
	fmt.Fprintf(&b, "  command:        %s\n", quote(cfg.Command.Args))
	if len(cfg.Command.Env) > 0 {
		fmt.Fprintf(&b, "  variables:      %s\n", strings.Join(slices.Sorted(maps.Keys(cfg.Command.Env)), ", "))
	}
	id := cfg.RunID
	if id == "" {
		id = "<" + cfg.Name + "-time-digits>"
	}
	fmt.Fprintf(&b, "  run directory:  %s/%s\n", cfg.LogDir, id)
	addr, port := cfg.Master.Addr, "<free>"
	if addr == "" {
		addr = "127.0.0.1"
	}
	if cfg.Master.Port != 0 {
		port = fmt.Sprint(cfg.Master.Port)
	}
	fmt.Fprintf(&b, "  master:         %s\n", net.JoinHostPort(addr, port))
	fmt.Fprintf(&b, "  restarts:       up to %d\n", cfg.MaxRestarts)
	fmt.Fprintf(&b, "  time to end in: %v\n", cfg.Grace)
	_, err := io.WriteString(w, b.String())
	return err
}

// quote writes a command so that a shell would read it back.
func quote(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") != "" {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

const helpHead = `ddprun starts the ranks of a distributed job on this machine.

  ddprun [flags] JOB.yaml [flags]             train a job; flags may stand on both sides
  ddprun [flags] [--] PROGRAM [arguments]     start any program, once per rank
  ddprun COMMAND ...                          one of the commands below

The first word that is no flag is the job file or the program; what follows a
program is its own. x.py runs as "${PYTHON_EXEC:-python3} -u x.py". A command is
one only as the very first word: "ddprun -- bench" starts a program called bench.
Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the
other variables of torchrun; ${local_rank} in an argument is replaced.

Examples
  ddprun --nproc-per-node=4 examples/digits.yaml
  ddprun examples/digits.yaml --set train.epochs=1 --set optimizer.lr=0.05
  ddprun --nproc-per-node=2 train.py --batch-size 32
  ddprun --nproc-per-node=8 --max-restarts=3 -m package.train
`

const helpTail = `
Each flag is also known with underscores (--nproc_per_node), must be written in
full, and has a default in the environment (PET_NPROC_PER_NODE). The command
line beats the environment, which beats "launch:" in the job file. A flag given
twice counts as given last.

Exit codes
    0      all ranks ended well
    1      a failure of no other class
    2      bad flag, variable or job file; nothing was started
   65      a data file was refused
   69      the machine is unfit: port, address, folder, device, library
   74      a checkpoint was refused or could not be written
   75      the nodes did not gather
   76      a collective or barrier passed its deadline
  126      the program cannot be executed
  127      the program was not found
  128+n    a rank, or ddprun itself, was ended by signal n
  other    the exit code of the first rank that failed

Signals
  INT, TERM, HUP and QUIT go to all ranks once and end the job after at most
  --shutdown-timeout; a second Ctrl-C kills at once. USR1, USR2, CONT and WINCH
  are passed on to the ranks. HUP stays ignored under nohup.
`

// help is the help text of a launch.
func help(root *cobra.Command, f *launchFlags) string {
	var b strings.Builder
	b.WriteString(helpHead)
	b.WriteString("\nCommands\n")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-12s %s\n", c.Name(), c.Short)
		}
	}
	fmt.Fprintf(&b, "  %-12s %s\n", "completion", "print a completion script for a shell")
	for _, g := range f.groups {
		fmt.Fprintf(&b, "\n%s\n", g.title)
		g.set.VisitAll(func(flag *pflag.Flag) { b.WriteString(flagLine(flag)) })
	}
	b.WriteString(helpTail)
	return b.String()
}

// flagLine is one flag of the help text.
func flagLine(flag *pflag.Flag) string {
	name := "    --" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", --" + flag.Name
	}
	if value := flag.Annotations[valueName]; len(value) == 1 {
		if flag.NoOptDefVal != "" {
			name += "[=" + value[0] + "]"
		} else {
			name += " " + value[0]
		}
	}
	text := flag.Usage
	if d := flag.DefValue; d != "" && d != "false" && d != "[]" {
		text += " (default " + d + ")"
	}
	return fmt.Sprintf("  %-31s%s\n", name, text)
}
