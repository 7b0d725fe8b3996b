//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/testkit"
)

// fakeDriver builds the stand-in driver library of the scenarios and returns
// the environment that has it in place of any other, with 4 GPUs and a
// CUDA_VISIBLE_DEVICES of nobody.
func fakeDriver(t *testing.T, env ...string) []string {
	t.Helper()
	if os.Getenv("CGO_ENABLED") == "0" {
		t.Skip("without cgo the driver's library is not asked")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build the stand-in driver")
	}
	dir := t.TempDir()
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/fakenvml/fakenvml.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	unset(t, "CUDA_VISIBLE_DEVICES")
	return append([]string{"LD_LIBRARY_PATH=" + dir, "FAKE_N=4"}, env...)
}

func unset(t *testing.T, name string) {
	t.Setenv(name, "") // puts it back after the test
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

func withEnv(c testkit.Command, env ...string) testkit.Command {
	c.Env = append(c.Env, env...)
	return c
}

// O-08 (1) to (5)
func TestDevices(t *testing.T) {
	env := fakeDriver(t)
	for _, c := range []struct {
		list  string // CUDA_VISIBLE_DEVICES=...
		code  int
		parts []string
	}{
		{"", 0, []string{"4 GPUs", "0  0  GPU 0", "3  3  GPU 3", "Stub 9000", "CPU slot"}},
		{"CUDA_VISIBLE_DEVICES=", 0, []string{"0 GPUs", "list is empty", "CPU slot"}},
		{"CUDA_VISIBLE_DEVICES=GPU-000000a2-1111-2222-3333-444444444444,GPU-000000a0", 0, []string{"2 GPUs", "  0  GPU-000000a2", "  1  GPU-000000a0"}},
		{"CUDA_VISIBLE_DEVICES=MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135", 0, []string{"1 GPU\n", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135"}},
		{"CUDA_VISIBLE_DEVICES=GPU-000000ff", 69, []string{`"GPU-000000ff"`}},
		{"CUDA_VISIBLE_DEVICES=0,7", 69, []string{`entry 2, "7"`}},
	} {
		cmd := withEnv(ddprun(t, t.TempDir(), "devices"), env...)
		if c.list != "" {
			cmd.Env = append(cmd.Env, c.list)
		}
		r := cmd.Run(t).Want(t, c.code)
		wantParts(t, r.Stdout+r.Stderr, c.parts...)
	}
}

func TestDevicesJSON(t *testing.T) {
	env := fakeDriver(t, "CUDA_VISIBLE_DEVICES=2,GPU-000000a0")
	r := withEnv(ddprun(t, t.TempDir(), "devices", "--json"), env...).Run(t).Want(t, 0)
	var got struct {
		GPUs []struct {
			Slot, Index int
			Entry, UUID string
		}
		CPUs int `json:"cpu_slots"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	if len(got.GPUs) != 2 || got.GPUs[0].Entry != "2" || got.GPUs[0].Index != 2 || got.GPUs[1].Slot != 1 || got.GPUs[1].Index != 0 || got.CPUs < 1 {
		t.Errorf("got %+v", got)
	}
}

// O-08 (6) to (8), and what the number of ranks is in other cases
func TestRanksForDevices(t *testing.T) {
	env := fakeDriver(t)
	dir := t.TempDir()
	put(t, dir, "see.sh", `echo "$LOCAL_RANK [${CUDA_VISIBLE_DEVICES-unset}]"`)
	for name, c := range map[string]struct {
		list string
		args []string
		code int
		out  []string // sorted lines
		err  []string
	}{
		"empty list": {"CUDA_VISIBLE_DEVICES=", []string{"--nproc-per-node=gpu"}, 69, nil, []string{"list is empty"}},
		"by UUID": {
			"CUDA_VISIBLE_DEVICES=GPU-000000a2,GPU-000000a0",
			[]string{"--nproc-per-node=gpu"},
			0,
			[]string{"[rank 0] 0 [GPU-000000a2]", "[rank 1] 1 [GPU-000000a0]"},
			[]string{"each rank sees its own only"},
		},
		"by UUID, number given": {
			"CUDA_VISIBLE_DEVICES=GPU-000000a2,GPU-000000a0",
			[]string{"--nproc-per-node=2"},
			0,
			[]string{"[rank 0] 0 [GPU-000000a2,GPU-000000a0]", "[rank 1] 1 [GPU-000000a2,GPU-000000a0]"},
			nil,
		},
		"by number": {
			"CUDA_VISIBLE_DEVICES=3,1",
			[]string{"--nproc-per-node=gpu"},
			0,
			[]string{"[rank 0] 0 [3,1]", "[rank 1] 1 [3,1]"},
			nil,
		},
		"auto": {
			"CUDA_VISIBLE_DEVICES=3,1",
			[]string{"--nproc-per-node=auto"},
			0,
			[]string{"[rank 0] 0 [3,1]", "[rank 1] 1 [3,1]"},
			nil,
		},
		"cpu is asked for": {
			"CUDA_VISIBLE_DEVICES=",
			[]string{"--nproc-per-node=2", "--set", "device=cpu"},
			0,
			[]string{"[rank 0] 0 []", "[rank 1] 1 []"},
			nil,
		},
		"cuda without":  {"CUDA_VISIBLE_DEVICES=", []string{"--set", "device=cuda"}, 69, nil, []string{"device: cuda", "list is empty"}},
		"no such value": {"CUDA_VISIBLE_DEVICES=", []string{"--set", "device=tpu"}, 2, nil, []string{"device=tpu"}},
		"usage first":   {"CUDA_VISIBLE_DEVICES=", []string{"--nproc-per-node=gpu", "--max-restarts=x"}, 2, nil, []string{"--max-restarts"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := withEnv(ddprun(t, dir, append(c.args, "--", "sh", "see.sh")...), append(env, c.list)...)
			r := cmd.Run(t).Want(t, c.code)
			if c.code == 0 && strings.Join(sortedLines(r.Stdout), "\n") != strings.Join(c.out, "\n") {
				t.Errorf("got %s", r)
			}
			wantParts(t, r.Stderr, c.err...)
			if strings.Contains(r.Stderr, "goroutine ") {
				t.Errorf("a trace: %s", r.Stderr)
			}
		})
	}
}

// O-09
func TestBrokenDriver(t *testing.T) {
	env := fakeDriver(t, "FAKE_INIT=18")
	dir := jobFolder(t)
	put(t, dir, "libnvidia-ml.so.1", "")
	ddpworker := filepath.Join(dir, "worker")
	put(t, dir, "worker", "#!/bin/sh\n")
	if err := os.Chmod(ddpworker, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) testkit.Command { return withEnv(ddprun(t, dir, args...), env...) }

	r := run("devices").Run(t).Want(t, 69)
	wantParts(t, r.Stderr, "error 18", "stub: library and kernel module differ", "reload the kernel module", "reboot")
	r = run("--nproc-per-node=2", "--set", "device=cpu", "--", "sh", "-c", "echo $RANK").Run(t).Want(t, 0)
	if got := strings.Join(sortedLines(r.Stdout), " "); got != "[rank 0] 0 [rank 1] 1" {
		t.Errorf("got %q", got)
	}
	wantParts(t, run("--nproc-per-node=gpu", "--", "true").Run(t).Want(t, 69).Stderr, "error 18")
	wantParts(t, run("--nproc-per-node=auto", "--", "true").Run(t).Want(t, 69).Stderr, "error 18", "say cpu")
	run("--nproc-per-node=auto", "--set", "device=cpu", "--", "true").Run(t).Want(t, 0)
	run("tiny.yaml").Run(t).Want(t, 0)
	wantParts(t, withEnv(run("tiny.yaml", "--set", "device=auto"), "DDPRUN_WORKER="+ddpworker).Run(t).Want(t, 69).Stderr, "device: auto", "error 18", "device: cpu")
	wantParts(t, run("doctor").Run(t).Want(t, 69).Stdout, "FAIL  driver", "error 18")

	r = withEnv(run("devices"), "LD_LIBRARY_PATH="+dir).Run(t).Want(t, 69)
	wantParts(t, r.Stderr, filepath.Join(dir, "libnvidia-ml.so.1"))
}

// A job takes GPUs when there are some, and a worker that can use them.
func TestJobChoosesItsDevice(t *testing.T) {
	env := fakeDriver(t)
	dir := jobFolder(t)
	put(t, dir, "worker", `#!/bin/sh
echo "$1 $LOCAL_RANK [${CUDA_VISIBLE_DEVICES-unset}]"
grep '^device' "$DDPRUN_RUN_DIR/job.yaml"
`)
	worker := filepath.Join(dir, "worker")
	if err := os.Chmod(worker, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) testkit.Command {
		return withEnv(ddprun(t, dir, append([]string{"tiny.yaml"}, args...)...), env...)
	}
	// without a worker
	r := run("--set", "device=cuda").Run(t).Want(t, 69)
	wantParts(t, r.Stderr, "device: cuda", "make ddpworker", "DDPRUN_WORKER")
	r = run("--set", "device=auto", "--rdzv-id=cpu").Run(t).Want(t, 0)
	if text, err := os.ReadFile(filepath.Join(dir, "runs/cpu/job.yaml")); err != nil || !strings.Contains(string(text), "device: cpu") {
		t.Errorf("%v: %s", err, text)
	}
	// with one
	env = append(env, "DDPRUN_WORKER="+worker)
	r = run("--set", "device=auto", "--nproc-per-node=auto").Run(t).Want(t, 0)
	for _, rank := range []string{"0", "1", "2", "3"} {
		wantParts(t, r.Stdout, "[rank "+rank+"] worker "+rank+" [unset]", "[rank "+rank+"] device: cuda")
	}
	// more ranks than devices share them
	r = withEnv(run("--set", "device=cuda", "--nproc-per-node=3"), "CUDA_VISIBLE_DEVICES=GPU-000000a2,GPU-000000a0").Run(t).Want(t, 0)
	wantParts(t, r.Stdout, "worker 0 [GPU-000000a2]", "worker 1 [GPU-000000a0]", "worker 2 [GPU-000000a2]")
	// device: cpu does not look at either
	r = withEnv(run("--nproc-per-node=1"), "FAKE_INIT=18").Run(t).Want(t, 0)
	if strings.Contains(r.Stdout, "worker 0 [") {
		t.Errorf("got %s", r)
	}
	// hidden devices
	r = withEnv(run("--set", "device=auto"), "CUDA_VISIBLE_DEVICES=-1").Run(t).Want(t, 0)
	if strings.Contains(r.Stdout, "worker 0 [") {
		t.Errorf("got %s", r)
	}
	// a worker that is not there
	r = withEnv(run("--set", "device=auto"), "DDPRUN_WORKER="+worker+"s").Run(t).Want(t, 69)
	wantParts(t, r.Stderr, worker+"s", "DDPRUN_WORKER names it")
}

func TestDoctor(t *testing.T) {
	env := fakeDriver(t)
	dir := t.TempDir()
	r := withEnv(ddprun(t, dir, "doctor"), env...).Run(t).Want(t, 0)
	wantParts(t, r.Stdout, "PASS  driver", "999.01", "4 of 4 GPUs", "GPU 3: Stub 9000", "WARN  worker", "disk", "0 failed")

	r = withEnv(ddprun(t, dir, "doctor", "--json"), append(env, "CUDA_VISIBLE_DEVICES=9")...).Run(t).Want(t, 69)
	var got struct {
		Fit      bool
		Findings []struct{ Check, Status, Text, Remedy string }
		Facts    struct{ Host struct{ CPUs int } }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	if got.Fit || len(got.Findings) < 15 || got.Facts.Host.CPUs < 1 {
		t.Errorf("got %+v", got)
	}
	for _, f := range got.Findings {
		if f.Check == "visible" && (f.Status != "FAIL" || !strings.Contains(f.Text, `"9"`) || f.Remedy == "") {
			t.Errorf("got %+v", f)
		}
	}
	wantParts(t, ddprun(t, dir, "doctor", "now").Run(t).Want(t, 2).Stderr, `unexpected argument "now"`)
}
