//go:build cgo && linux && !nodl

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/testkit"
)

// The test program is also the copy that is asked.
const childVariable = "PROBE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "devices":
		_ = json.NewEncoder(os.Stdout).Encode(Devices())
		os.Exit(0)
	case "libraries":
		_ = json.NewEncoder(os.Stdout).Encode(Libraries())
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// driverLibrary builds the stand-in driver and puts it on the loader's path.
func driverLibrary(t *testing.T) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build the stand-in driver")
	}
	dir := t.TempDir()
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", filepath.Join(dir, nvmlName), "testdata/driver.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

func self(t *testing.T, what string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childVariable, what)
	return []string{exe}
}

func TestDevicesAreRead(t *testing.T) {
	driverLibrary(t)
	m, err := AskDevices(context.Background(), self(t, "devices"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.GPUs { // what this machine's sysfs says of made-up addresses
		m.GPUs[i].NUMA, m.GPUs[i].CPUs = nil, ""
	}
	yes, no := true, false
	want := Machine{
		Source: "nvml", Driver: "550.54.15", CUDA: 12040,
		GPUs: []GPU{
			{
				Index: 0, UUID: "GPU-00000000", Name: "H200", PCI: "0000:1a:00.0",
				MemoryTotal: 140 << 30, MemoryUsed: 1 << 30, Capability: "9.0", ComputeMode: "default", Persistence: &yes,
				MIG: &MIG{}, ECC: &ECC{Enabled: true}, Throttle: []string{"idle"}, Temperature: 30, PowerWatts: 75, PowerLimit: 700,
				PCIeWidth: 16, PCIeMaxWidth: 16, NVLinks: 18, Fabric: "completed",
			},
			{
				Index: 1, UUID: "GPU-00000001", Name: "H200", PCI: "0000:1b:00.0",
				MemoryTotal: 140 << 30, MemoryUsed: 2 << 30, Capability: "9.0", ComputeMode: "exclusive", Persistence: &no,
				Processes: []Process{{PID: 1, Name: processName(1)}},
				MIG: &MIG{Enabled: true, Slices: []MIGSlice{
					{UUID: "MIG-0", Name: "H200", MemoryTotal: 140 << 30}, {UUID: "MIG-2", Name: "H200", MemoryTotal: 140 << 30},
				}},
				ECC:      &ECC{Enabled: true, Corrected: 40, Uncorrected: 2, PendingRepair: true},
				Throttle: []string{"power limit", "temperature (hardware)"}, Temperature: 91, PowerWatts: 75, PowerLimit: 700,
				PCIeWidth: 8, PCIeMaxWidth: 16, NVLinks: 17, NVLinksDown: 1, Fabric: "in progress",
			},
			{Index: 2, Fault: "error 15 (GPU is lost)"},
		},
		Links: []Link{{A: 0, B: 1, Kind: "NV18", P2P: true}},
	}
	if !reflect.DeepEqual(m, want) {
		got, _ := json.MarshalIndent(m, "", " ")
		t.Errorf("got %s", got)
	}
}

// A driver that misbehaves is an error that says how, and nothing worse.
func TestBadDrivers(t *testing.T) {
	driverLibrary(t)
	command := self(t, "devices")
	for mode, want := range map[string]string{
		"crash": "SIGSEGV", "abort": "SIGABRT", "exit": `exit code 9 after saying "driver says no"`,
		"babble": `printed "hello from the driver"`, "silent": "printed nothing",
	} {
		t.Setenv("FAKE_MODE", mode)
		_, err := AskDevices(context.Background(), command)
		if err == nil || exitcode.Of(err) != exitcode.Machine || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	t.Setenv("FAKE_MODE", "unloaded")
	if m, err := AskDevices(context.Background(), command); len(nvidiaHardware("")) == 0 && (err != nil || m.Absent == "") {
		t.Errorf("unloaded: %+v, %v", m, err)
	}
}

func TestHangingDriver(t *testing.T) {
	driverLibrary(t)
	t.Setenv("FAKE_MODE", "hang")
	began := time.Now()
	_, err := exchange[Machine](context.Background(), self(t, "devices"), "the driver", 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no answer within 300ms") || exitcode.Of(err) != exitcode.Machine {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err = AskDevices(ctx, self(t, "devices")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(began); took > testkit.Scale(deviceLimit) {
		t.Errorf("took %v", took)
	}
}

// O-09, last line.
func TestDamagedLibrary(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, nvmlName)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	_, err := AskDevices(context.Background(), self(t, "devices"))
	if err == nil || !strings.Contains(err.Error(), file) || exitcode.Of(err) != exitcode.Machine {
		t.Errorf("err = %v", err)
	}
}

func TestNoSuchCopy(t *testing.T) {
	_, err := AskLibraries(context.Background(), []string{filepath.Join(t.TempDir(), "gone")})
	if err == nil || exitcode.Of(err) != exitcode.Machine {
		t.Errorf("err = %v", err)
	}
}

// The libraries are small ones of ours, found through their variables and the
// loader's path.
func TestLibrariesAreAsked(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	build := func(soname, text string) {
		src := filepath.Join(dir, "x.c")
		if err := os.WriteFile(src, []byte("#include <stddef.h>\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", filepath.Join(dir, soname), src).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	build("libcublasLt.so.12", `size_t cublasLtGetCudartVersion(void){return 12080;} int cublasLtGetProperty(int w,int*v){*v=(int[]){12,8,4}[w];return 0;}`)
	build("libcudnn.so.9", `size_t cudnnGetVersion(void){return 90701;} size_t cudnnGetCudartVersion(void){return 12080;}`)
	build("libopenblas.so.0", `const char*openblas_get_config(void){return "OpenBLAS 0.3.99 NO_AFFINITY";}`)
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv("DDPRUN_CUBLASLT", dir)
	t.Setenv("DDPRUN_NCCL", filepath.Join(dir, "no-nccl"))
	libs, err := AskLibraries(context.Background(), self(t, "libraries"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Library{}
	for _, l := range libs {
		if _, seen := got[l.Name]; !seen {
			got[l.Name] = l
		}
	}
	for _, want := range []Library{
		{Name: "cuBLAS", Path: filepath.Join(dir, "libcublasLt.so.12"), Version: "12.8.4", CUDA: 12080},
		{Name: "cuDNN", Path: filepath.Join(dir, "libcudnn.so.9"), Version: "9.7.1", CUDA: 12080},
		{Name: "OpenBLAS", Path: filepath.Join(dir, "libopenblas.so.0"), Version: "0.3.99"},
	} {
		if !reflect.DeepEqual(got[want.Name], want) {
			t.Errorf("got %+v", got[want.Name])
		}
	}
	if n := got["NCCL"]; n.Path != "" || !strings.Contains(strings.Join(n.Tried, "\n"), "no-nccl") {
		t.Errorf("NCCL: %+v", n)
	}
}
