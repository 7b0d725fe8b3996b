package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exitcode.With(fmt.Errorf("ddprun version: unexpected argument %q", args[0]), exitcode.Usage)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(w io.Writer) error {
	version, commit, changed := "unknown", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = ", commit " + s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	_, err := fmt.Fprintf(w, "ddprun %s%s%s, %s %s/%s\n", version, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
