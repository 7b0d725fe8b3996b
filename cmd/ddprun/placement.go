package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/launcher"
	"github.com/ddprun/ddprun/launcher/doctor"
	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/doctor/visible"
)

// countWords are what --nproc-per-node takes beside a number.
var countWords = []string{"auto", "cpu", "gpu"}

// placement is where the ranks of a launch compute, and what there is to give
// them. The driver is asked only when something depends on it, and once.
type placement struct {
	device string // auto | cpu | cuda
	lookup func(string) (string, bool)

	asked   bool
	machine probe.Machine
	list    visible.List
	err     error

	byGPU bool // the number of ranks is that of the GPUs
}

// newPlacement reads the environment that ranks get; own are the variables that
// the job adds to it.
func newPlacement(device string, own map[string]string) *placement {
	return &placement{device: device, lookup: func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		return os.LookupEnv(name)
	}}
}

// gpus is what a launch may hand out.
func (p *placement) gpus() (visible.List, error) {
	if p.asked {
		return p.list, p.err
	}
	p.asked = true
	value, set := p.lookup(visible.Variable)
	if !set || !visible.Empty(value) { // an empty list needs no driver
		if p.machine, p.err = askDevices(context.Background()); p.err != nil {
			return p.list, p.err
		}
	}
	p.list, p.err = visible.Read(value, set, p.machine)
	return p.list, p.err
}

// count says how many ranks a word means: "gpu" one for each GPU, "cpu" one for
// each processor, "auto" GPUs if there are any and the job does not say
// otherwise.
func (p *placement) count(word string) (int, error) {
	if word == "cpu" || word == "auto" && p.device == "cpu" {
		return runtime.NumCPU(), nil
	}
	list, err := p.gpus()
	switch {
	case err != nil && word == "auto":
		return 0, fmt.Errorf("it cannot be told whether there are GPUs: %w; without GPUs, say cpu or a number", err)
	case err != nil:
		return 0, err
	case len(list.Devices) > 0:
		p.byGPU = true
		return len(list.Devices), nil
	case word == "auto" && p.device == "auto":
		return runtime.NumCPU(), nil
	}
	return 0, exitcode.With(fmt.Errorf("there is no GPU: %s", list.Why), exitcode.Machine)
}

// each gives every rank its own device where the list names devices by id. CUDA
// gives a process one MIG slice whatever the list says, and a rank that sees
// one device cannot take another's. A list of numbers, and a number of ranks
// that was given as a number, are left as torchrun leaves them.
func (p *placement) each(cfg *launcher.Config) {
	if !p.list.ByID || len(p.list.Devices) == 0 {
		return
	}
	for i := range cfg.Ranks {
		entry := p.list.Devices[i%len(p.list.Devices)].Entry
		cfg.Command.RankEnv = append(cfg.Command.RankEnv, map[string]string{visible.Variable: entry})
	}
}

// fit makes the short form of the doctor's checks on the GPUs that a launch is
// going to use; what it warns of goes to warn.
func (p *placement) fit(ranks int, warn func(string, ...any)) error {
	facts := doctor.Facts{Host: doctor.GatherQuick(p.lookup), Machine: p.machine, Visible: p.list}
	var failed []error
	for _, f := range doctor.Quick(facts, ranks) {
		switch f.Status {
		case doctor.Fail:
			failed = append(failed, errors.New(f.Sentence()))
		case doctor.Warn:
			warn("%s", f.Sentence())
		}
	}
	return exitcode.With(errors.Join(failed...), exitcode.Machine)
}

// chooseWorker names the program that trains the job and settles its device:
// this program on the processor, ddpworker on GPUs.
func (p *placement) chooseWorker(j *job.Job, warn func(string, ...any)) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, exitcode.With(fmt.Errorf("find this program's own file: %w", err), exitcode.Machine)
	}
	worker, workerErr := findWorker(exe)
	if p.device == "auto" {
		if p.device, err = p.best(workerErr, warn); err != nil {
			return nil, fmt.Errorf("device: auto: %w; device: cpu trains on the processor", err)
		}
	}
	j.Device = p.device
	if p.device == "cpu" {
		return []string{exe, "worker"}, nil
	}
	list, err := p.gpus()
	if err == nil && len(list.Devices) == 0 {
		err = fmt.Errorf("no GPU: %s", list.Why)
	}
	if err := errors.Join(err, workerErr); err != nil {
		return nil, exitcode.With(fmt.Errorf("device: cuda: %s; device: cpu trains on the processor", strings.ReplaceAll(err.Error(), "\n", "; and ")), exitcode.Machine)
	}
	return []string{worker, "worker"}, nil
}

// best is the device of "auto": GPUs if there are any and a worker that can use
// them.
func (p *placement) best(workerErr error, warn func(string, ...any)) (string, error) {
	if value, set := p.lookup(visible.Variable); set && visible.Empty(value) {
		return "cpu", nil
	}
	if workerErr != nil {
		if given, _ := p.lookup(workerVariable); given != "" {
			return "", workerErr
		}
		if probe.DriverLoaded() {
			warn("training on the processor although this machine has GPUs: %v", workerErr)
		}
		return "cpu", nil
	}
	list, err := p.gpus()
	if err != nil {
		return "", err
	}
	if len(list.Devices) == 0 {
		return "cpu", nil
	}
	return "cuda", nil
}

// workerVariable names the program with the GPU code.
const workerVariable = "DDPRUN_WORKER"

// findWorker finds ddpworker: where DDPRUN_WORKER says, else beside this
// program.
func findWorker(exe string) (string, error) {
	path, where := os.Getenv(workerVariable), workerVariable+" names it"
	if path == "" {
		path, where = filepath.Join(filepath.Dir(exe), "ddpworker"), "it is looked for there"
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(abs)
	}
	if err != nil {
		return "", exitcode.With(fmt.Errorf("no program %s (%s): `make ddpworker` builds it where CUDA's headers are; put it beside ddprun or set %s to its path", abs, where, workerVariable), exitcode.Machine)
	}
	return abs, nil
}

// programDevice reads what --set says to a program: only where its ranks
// compute, which is a matter of the launch.
func programDevice(v *values, sets []string, program string) string {
	device := "auto"
	for _, s := range sets {
		key, value, _ := strings.Cut(s, "=")
		switch {
		case key != "device":
			v.bad("--set %s changes a key of a job file, and %s is a program (only --set device=... has a meaning for it)", s, program)
		case !slices.Contains([]string{"auto", "cpu", "cuda"}, value):
			v.bad("--set %s: want device=auto, device=cpu or device=cuda", s)
		default:
			device = value
		}
	}
	return device
}
