package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/cmd/internal/rankcmd"
	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker"
	"github.com/ddprun/ddprun/worker/device"
)

// newWorkerCommand is a rank with the backends that this binary has: those
// that need nothing but Go.
func newWorkerCommand() *cobra.Command {
	return rankcmd.New(worker.Backends{
		Devices: map[string]func(rankenv.Env, string) (device.Device, error){"cpu": rankcmd.OpenCPU},
		Groups: map[string]func(context.Context, rankenv.Env, device.Device) (collective.Group, error){
			"cpu": rankcmd.OpenCPUGroup,
		},
	})
}
