//go:build cuda

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/cmd/internal/rankcmd"
	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/ncclgroup"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda"
	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
)

// openCUDA opens the GPU of the rank's place on its node. Where there are more
// ranks than GPUs, they share.
func openCUDA(env rankenv.Env, precision string) (device.Device, error) {
	n, err := cuda.Count()
	if err != nil {
		return nil, err
	}
	o, err := options()
	if err != nil {
		return nil, err
	}
	o.Index = env.LocalRank % max(n, 1)
	o.TF32 = precision == "tf32"
	d, err := cuda.Open(o)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// options reads what has no place in a job file.
func options() (o cuda.Options, err error) {
	if o.Allocator, err = allocator.Parse(os.Getenv("DDPRUN_ALLOC_CONF")); err != nil {
		return o, exitcode.With(fmt.Errorf("DDPRUN_ALLOC_CONF: %w", err), exitcode.Usage)
	}
	o.Sync = os.Getenv("DDPRUN_CUDA_SYNC") == "1"
	o.Benchmark = os.Getenv("DDPRUN_CUDA_BENCHMARK") == "1"
	return o, nil
}

// openNCCL opens the process group of NCCL over a CUDA device.
func openNCCL(ctx context.Context, env rankenv.Env, d device.Device) (collective.Group, error) {
	gpu, ok := d.(*cuda.Device)
	if !ok {
		return nil, exitcode.With(fmt.Errorf("ddp.backend nccl needs device cuda, the device is %s", d.Place()), exitcode.Usage)
	}
	s, err := rankcmd.OpenStore(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := shareGPU(env); err != nil {
		return nil, err
	}
	return ncclgroup.New(ctx, ncclgroup.Config{
		Rank: env.Rank, Size: env.WorldSize, Store: s, Device: gpu.Handles(), Timeout: env.Timeout,
		Warn: func(text string) { fmt.Fprintf(os.Stderr, "rank %d: %s\n", env.Rank, text) },
	})
}

// shareGPU lets several ranks use one GPU: NCCL refuses two ranks of a host on
// one device, so each such rank counts as a host of its own. Right for trying a
// job out, meaningless for speed. NCCL reads the variable when it is opened.
func shareGPU(env rankenv.Env) error {
	n, err := cuda.Count()
	if err != nil || env.LocalWorldSize <= n || os.Getenv("NCCL_HOSTID") != "" {
		return err
	}
	if env.LocalRank == 0 {
		fmt.Fprintf(os.Stderr, "%d ranks share %d GPUs: their exchange goes over the network stack\n", env.LocalWorldSize, n)
	}
	return os.Setenv("NCCL_HOSTID", fmt.Sprintf("ddprun-%d-%d", env.GroupRank, env.LocalRank))
}

// newDeviceCommand opens a GPU, compiles all kernels for it and says what it
// is: a first check of a machine.
func newDeviceCommand() *cobra.Command {
	index := 0
	c := &cobra.Command{
		Use: "device", Short: "open a GPU, load everything and describe it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := cuda.Open(cuda.Options{Index: index})
			if err != nil {
				return exitcode.With(err, exitcode.Machine)
			}
			defer d.Close()
			if err := d.Warm(); err != nil {
				return exitcode.With(err, exitcode.Machine)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), d.Describe())
			return err
		},
	}
	c.Flags().IntVar(&index, "index", 0, "which of the GPUs that the process sees")
	return c
}
