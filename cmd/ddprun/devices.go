package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/doctor/visible"
)

// How the launcher starts a copy of this program that asks the driver, or opens
// the GPU libraries, in its place.
const (
	deviceProbeCommand  = "probe-devices"
	libraryProbeCommand = "probe-libraries"
)

// probeLife ends a copy that nobody waits for any longer.
const probeLife = time.Minute

// runProbe is such a copy.
func runProbe(ask func() any, stdout io.Writer) error {
	time.AfterFunc(probeLife, func() { os.Exit(exitcode.Failure) })
	return json.NewEncoder(stdout).Encode(ask())
}

func probeCommand(name string) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("find this program's own file: %w", err), exitcode.Machine)
	}
	return []string{exe, name}, nil
}

func askDevices(ctx context.Context) (probe.Machine, error) {
	command, err := probeCommand(deviceProbeCommand)
	if err != nil {
		return probe.Machine{}, err
	}
	return probe.AskDevices(ctx, command)
}

func askLibraries(ctx context.Context) ([]probe.Library, error) {
	command, err := probeCommand(libraryProbeCommand)
	if err != nil {
		return nil, err
	}
	return probe.AskLibraries(ctx, command)
}

func newDevicesCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "list what a launch here would hand out",
		Long: `List the GPUs and CPU slots that a launch on this machine would hand out, in
their order: --nproc-per-node=gpu starts one rank for each GPU of the list,
--nproc-per-node=cpu one for each CPU slot, and auto one for each GPU if there
are any.

CUDA_VISIBLE_DEVICES is read as the driver reads it: not set means all GPUs,
empty or -1 none; numbers, UUIDs (the beginning of one is enough) and MIG ids may
be mixed. Where the driver would quietly drop devices (an entry that is unknown,
out of range, empty, or there twice) this is an error that names the entry.

A machine without GPUs is no error; a driver that is there and does not work is
one (exit code 69).`,
		Example: `  ddprun devices
  CUDA_VISIBLE_DEVICES=2,0 ddprun devices --json`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments("devices"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newPlacement("auto", nil)
			list, err := p.gpus()
			if err != nil {
				return fmt.Errorf("ddprun devices: %w", err)
			}
			if asJSON {
				return writeDevicesJSON(cmd.OutOrStdout(), list)
			}
			return writeDevices(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// noArguments refuses words behind a command that takes only flags.
func noArguments(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exitcode.With(fmt.Errorf("ddprun %s: unexpected argument %q (it takes flags only)", name, args[0]), exitcode.Usage)
		}
		return nil
	}
}

func writeDevices(w io.Writer, list visible.List) error {
	var b strings.Builder
	switch n := len(list.Devices); n {
	case 0:
		fmt.Fprintf(&b, "0 GPUs: %s\n", list.Why)
	case 1:
		b.WriteString("1 GPU\n")
	default:
		fmt.Fprintf(&b, "%d GPUs\n", n)
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, d := range list.Devices {
		fmt.Fprintf(table, "  %d\t%s", i, d.Entry)
		if g := d.GPU; g != nil {
			fmt.Fprintf(table, "\tGPU %d\t%s\t%s", g.Index, g.UUID, g.Name)
			if g.MemoryTotal > 0 {
				fmt.Fprintf(table, "\t%.1f of %.1f GiB free", gib(g.MemoryTotal-g.MemoryUsed), gib(g.MemoryTotal))
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // into memory
	if n := runtime.NumCPU(); n == 1 {
		b.WriteString("1 CPU slot\n")
	} else {
		fmt.Fprintf(&b, "%d CPU slots\n", n)
	}
	for _, note := range list.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

func writeDevicesJSON(w io.Writer, list visible.List) error {
	type row struct {
		Slot  int    `json:"slot"`  // local rank that it is for
		Entry string `json:"entry"` // as CUDA_VISIBLE_DEVICES would name it
		*probe.GPU
	}
	out := struct {
		GPUs   []row    `json:"gpus"`
		Reason string   `json:"reason,omitempty"` // why there are none
		CPUs   int      `json:"cpu_slots"`
		Notes  []string `json:"notes,omitempty"`
	}{[]row{}, list.Why, runtime.NumCPU(), list.Notes}
	for i, d := range list.Devices {
		out.GPUs = append(out.GPUs, row{i, d.Entry, d.GPU})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
