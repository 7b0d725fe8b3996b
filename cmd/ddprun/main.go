// Command ddprun starts the ranks of a distributed job: the trainer of this
// project for a job file, or any other program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddprun/ddprun/cmd/internal/rankcmd"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/proc"
)

// guardCommand is how the launcher starts a copy of this program as its guard.
const guardCommand = "launch-guard"

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main without the exit. A sub-command is one only as the very first
// word; everything else is a launch, so that no program's name or flag can be
// taken for one of ours.
func run(args []string) int {
	if len(args) == 1 {
		switch args[0] {
		case guardCommand:
			return report(os.Stderr, proc.RunGuard())
		case deviceProbeCommand:
			return report(os.Stderr, runProbe(func() any { return probe.Devices() }, os.Stdout))
		case libraryProbeCommand:
			return report(os.Stderr, runProbe(func() any { return probe.Libraries() }, os.Stdout))
		}
	}
	root, flags := newRootCommand()
	if len(args) > 0 && isSubcommand(root, args[0]) {
		root.SetArgs(args)
		return report(os.Stderr, root.ExecuteContext(context.Background()))
	}
	l := &launch{flags: flags, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}
	code, err := l.main(args)
	if errors.Is(err, pflag.ErrHelp) {
		root.SetOut(os.Stdout)
		return report(os.Stderr, root.Help())
	}
	if err != nil {
		return report(os.Stderr, err)
	}
	return code
}

// report prints an error and returns its exit code. Errors of sub-commands name
// the command themselves.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitcode.OK
	}
	var said rankcmd.Silent
	if errors.As(err, &said) {
		return exitcode.Of(err)
	}
	text := err.Error()
	if !strings.HasPrefix(text, "ddprun") {
		text = "ddprun: " + text
	}
	fmt.Fprintln(w, text)
	return exitcode.Of(err)
}

func newRootCommand() (*cobra.Command, *launchFlags) {
	root := &cobra.Command{
		Use:           "ddprun",
		Short:         "train a job, or launch any program, on several processes",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		// Reached through cobra only for "ddprun help" and completion.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := newLaunchFlags()
	for _, g := range flags.groups {
		root.Flags().AddFlagSet(g.set)
	}
	root.Flags().SetInterspersed(false)
	root.InitDefaultHelpFlag()
	flags.all = root.Flags()
	root.AddCommand(newDoctorCommand(), newDevicesCommand(), newShardCommand(), newBenchCommand(), newBenchRankCommand(), newWorkerCommand(), newVersionCommand())
	root.SetGlobalNormalizationFunc(dashes)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exitcode.With(fmt.Errorf("%s: %w", cmd.CommandPath(), err), exitcode.Usage)
	})
	sub := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			_, _ = io.WriteString(cmd.OutOrStdout(), help(root, flags))
			return
		}
		sub(cmd, args)
	})
	return root, flags
}

// dashes lets --nproc_per_node mean --nproc-per-node, for every command.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

func isSubcommand(root *cobra.Command, word string) bool {
	if slices.Contains([]string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, word) {
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == word || c.HasAlias(word)
	})
}
