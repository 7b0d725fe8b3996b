//go:build cuda

// Command ddpworker is one rank of a training job, with NVIDIA GPUs and NCCL
// besides the CPU. The launcher, ddprun, starts it; ddprun itself has no GPU
// code, because that ends a program at its start where there is no driver.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/cmd/internal/rankcmd"
	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker"
	"github.com/ddprun/ddprun/worker/device"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main without the exit.
func run(args []string) int {
	root := &cobra.Command{
		Use: "ddpworker", Short: "a rank of a training job, with GPUs", SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(rankcmd.New(worker.Backends{
		Devices: map[string]func(rankenv.Env, string) (device.Device, error){"cpu": rankcmd.OpenCPU, "cuda": openCUDA},
		Groups: map[string]func(context.Context, rankenv.Env, device.Device) (collective.Group, error){
			"cpu": rankcmd.OpenCPUGroup, "nccl": openNCCL,
		},
	}), newDeviceCommand())
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var silent rankcmd.Silent
	if err != nil && !errors.As(err, &silent) {
		fmt.Fprintf(os.Stderr, "ddpworker: %v\n", err)
	}
	return exitcode.Of(err)
}
