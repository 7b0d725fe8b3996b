package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/internal/rankenv"
	"github.com/ddprun/ddprun/worker/device"
)

// Backends are the devices and process groups that a binary can offer, by the
// names that a job file uses.
type Backends struct {
	// Devices opens a device for a rank, with the job's precision: "cpu", "cuda".
	Devices map[string]func(env rankenv.Env, precision string) (device.Device, error)
	// Groups opens a process group over a device: "cpu", "nccl".
	Groups map[string]func(context.Context, rankenv.Env, device.Device) (collective.Group, error)
}

// backendOf is the process group that belongs to a device.
var backendOf = map[string]string{"cpu": "cpu", "cuda": "nccl"}

// deviceName resolves "auto" to the best device that the binary has.
func (b Backends) deviceName(j *job.Job) string {
	if j.Device != "auto" {
		return j.Device
	}
	if b.Devices["cuda"] != nil {
		return "cuda"
	}
	return "cpu"
}

func (b Backends) openDevice(name, precision string, env rankenv.Env) (device.Device, error) {
	open := b.Devices[name]
	if open == nil {
		err := fmt.Errorf("device: %s is not in this binary, which has %s", name, names(b.Devices))
		return nil, exitcode.With(err, exitcode.Machine)
	}
	d, err := open(env, precision)
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("rank %d: opening device %s: %w", env.Rank, name, err), exitcode.Machine)
	}
	return d, nil
}

func (b Backends) openGroup(ctx context.Context, backend, deviceName string, env rankenv.Env, d device.Device) (collective.Group, error) {
	if backend == "auto" {
		backend = backendOf[deviceName]
	}
	open := b.Groups[backend]
	if open == nil {
		err := fmt.Errorf("ddp.backend: %s is not in this binary, which has %s", backend, names(b.Groups))
		return nil, exitcode.With(err, exitcode.Machine)
	}
	return open(ctx, env, d)
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
