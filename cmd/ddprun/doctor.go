package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/doctor"
)

func newDoctorCommand() *cobra.Command {
	asJSON, logDir := false, "runs"
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say whether this machine is fit to train, what is wrong, what to do",
		Long: `Examine this machine: driver, GPUs, the links between them, CUDA's libraries and
whether they fit together, the network, limits, memory and disk.

Each check is a line: PASS, WARN (training works, but slower or at risk), FAIL
(it will not work), or SKIP (does not apply here). What is wrong has a line with
its remedy. Nothing is changed, and no GPU is used.

The exit code is 69 when a check has failed, and 0 otherwise. With --json the
findings and all facts that they rest on are one object.`,
		Example: `  ddprun doctor
  ddprun doctor --json | jq '.findings[] | select(.status != "PASS")'`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments("doctor"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			facts := doctor.Gather(cmd.Context(), doctor.Sources{
				Lookup: os.LookupEnv, LogDir: logDir,
				Devices: askDevices, Libraries: askLibraries, Worker: ownWorker,
			})
			findings := doctor.Examine(facts)
			var err error
			if asJSON {
				err = doctor.WriteJSON(cmd.OutOrStdout(), findings, facts)
			} else {
				err = doctor.Write(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return fmt.Errorf("ddprun doctor: write: %w", err)
			}
			if unfit := doctor.Unfit(findings); len(unfit) > 0 {
				return exitcode.With(fmt.Errorf("ddprun doctor: this machine is not fit: %s", strings.Join(unfit, ", ")), exitcode.Machine)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&logDir, "log-dir", logDir, "folder of run directories, whose disk is looked at")
	return cmd
}

// ownWorker is the ddpworker that a launch would use.
func ownWorker() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	return findWorker(exe)
}
