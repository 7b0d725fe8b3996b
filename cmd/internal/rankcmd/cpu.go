package rankcmd

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker/device"
	devicecpu "github.com/ddprun/ddprun/worker/device/cpu"
)

// OpenCPU opens the CPU as a device. OMP_NUM_THREADS says how many threads
// multiply matrices; the launcher sets it to 1 where several ranks share a
// node.
func OpenCPU(env rankenv.Env, precision string) (device.Device, error) {
	if precision != "fp32" {
		return nil, fmt.Errorf("precision: %s needs device cuda; the CPU computes in fp32", precision)
	}
	threads := max(runtime.NumCPU()/max(env.LocalWorldSize, 1), 1)
	if n, err := strconv.Atoi(os.Getenv("OMP_NUM_THREADS")); err == nil && n > 0 {
		threads = n
	}
	return devicecpu.New(devicecpu.Options{Threads: threads})
}

// OpenCPUGroup opens the process group over sockets.
func OpenCPUGroup(ctx context.Context, env rankenv.Env, _ device.Device) (collective.Group, error) {
	cfg := cpu.Config{Rank: env.Rank, Size: env.WorldSize, Token: env.Token, Timeout: env.Timeout}
	if env.WorldSize > 1 {
		s, err := OpenStore(ctx, env)
		if err != nil {
			return nil, err
		}
		cfg.Store = s
	}
	return cpu.New(ctx, cfg)
}
