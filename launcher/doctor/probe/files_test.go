package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestKernelFiles(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/driver/nvidia/version":                       "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version:  gcc version 12.2.0\n",
		"proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t GPU-bb\n",
		"proc/driver/nvidia/gpus/0000:1a:00.0/information": "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-aa\n",
		"sys/bus/pci/devices/0000:1a:00.0/numa_node":       "1\n",
		"sys/bus/pci/devices/0000:1a:00.0/local_cpulist":   "16-31\n",
		"sys/bus/pci/devices/0000:3b:00.0/numa_node":       "-1\n",
	})
	one := 1
	want := Machine{Source: "/proc/driver/nvidia", Driver: "535.129.03", GPUs: []GPU{
		{Index: 0, UUID: "GPU-aa", Name: "NVIDIA H200", PCI: "0000:1a:00.0", NUMA: &one, CPUs: "16-31"},
		{Index: 1, UUID: "GPU-bb", Name: "NVIDIA H200", PCI: "0000:3b:00.0"},
	}}
	if got := readProc(root); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// Without a driver, the hardware decides whether that is a fault.
func TestNoDriver(t *testing.T) {
	if m := readProc(t.TempDir()); m.Absent == "" || m.Fault != nil {
		t.Errorf("bare machine: %+v", m)
	}
	root := tree(t, map[string]string{
		"sys/bus/pci/devices/0000:1a:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:1a:00.0/class": "0x030200\n",
		"sys/bus/pci/devices/0000:1a:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:1a:00.1/class": "0x040300\n", // its sound device
		"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n",
	})
	m := readProc(root)
	if m.Fault == nil || m.Absent != "" || !strings.Contains(m.Fault.Text, "PCI 0000:1a:00.0") || strings.Contains(m.Fault.Text, "00.1") {
		t.Errorf("GPU without driver: %+v", m)
	}
}

func TestPCINames(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:3B:00.0": "0000:3b:00.0", "0000:3b:00.0": "0000:3b:00.0", "00010000:00:1e.0": "00010000:00:1e.0", "": "",
	} {
		if got := pciName(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestThrottleReasons(t *testing.T) {
	if got := throttleReasons(1 | 4 | 64 | 1<<40); !slices.Equal(got, []string{"idle", "power limit", "temperature (hardware)"}) {
		t.Errorf("got %q", got)
	}
	for mask, want := range map[uint64]bool{1: false, 4: false, 8: true, 32: true, 64: true, 128: true, 256: false} {
		if got := Slows(throttleReasons(mask)[0]); got != want {
			t.Errorf("%d: slows %v", mask, got)
		}
	}
	if Slows("unheard of") {
		t.Error("an unknown reason slows")
	}
}

func TestVersions(t *testing.T) {
	for n, want := range map[int]string{8902: "8.9.2", 90100: "9.1.0", 91002: "9.10.2"} {
		if got := cudnnVersion(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := fileVersion("/lib/libcudnn.so.9.1.0"); got != "9.1.0" {
		t.Errorf("got %s", got)
	}
}

// The text is found wherever it lies between the pieces that are read.
func TestScanCUDA(t *testing.T) {
	text := []byte("NCCL version 2.21.5+cuda12.4\x00")
	for before := range 200 {
		b := slices.Concat(bytes.Repeat([]byte{'+'}, before), text, bytes.Repeat([]byte{7}, 100))
		if got := scanCUDA(bytes.NewReader(b), 64); got != 12040 {
			t.Fatalf("%d bytes before: %d", before, got)
		}
	}
	for text, want := range map[string]int{"": 0, "+cuda": 0, "+cuda12": 0, "+cuda13.0": 13000, "xx+cuda11.8": 11080, "+cudax +cuda12.2 ": 12020} {
		if got := scanCUDA(strings.NewReader(text), 64); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// Places are listed best first, each once, and a named one is the only one.
func TestCandidates(t *testing.T) {
	files := []string{
		"/usr/local/cuda-12.4/lib64/libcublasLt.so.12", "/usr/local/cuda-12.8/lib64/libcublasLt.so.12",
		"/venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12",
		"/usr/bin/python3", "/usr/local/lib/python3.11/dist-packages/nvidia/cu13/lib/libcublasLt.so.13",
		"/named/libcublasLt.so.11",
	}
	env := map[string]string{"VIRTUAL_ENV": "/venv", "PATH": "/usr/bin:/bin"}
	s := search{env: func(k string) string { return env[k] }, glob: func(pattern string) []string {
		var out []string
		for _, f := range files {
			if ok, _ := filepath.Match(pattern, f); ok {
				out = append(out, f)
			}
		}
		return out
	}}
	w := wantedLibraries[0]
	if got, want := w.candidates(s, "libcublasLt.so.12"), []string{"libcublasLt.so.12", files[1], files[0], files[2]}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got, want := w.candidates(s, "libcublasLt.so.13"), []string{"libcublasLt.so.13", files[4]}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	env["DDPRUN_CUBLASLT"] = "/named"
	if got := w.candidates(s, "libcublasLt.so.11"); !slices.Equal(got, files[5:]) {
		t.Errorf("got %q", got)
	}
	if got := w.candidates(s, "libcublasLt.so.12"); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestBounded(t *testing.T) {
	b := &bounded{limit: 5}
	for _, s := range []string{"abc", "def", "ghi"} {
		if n, err := b.Write([]byte(s)); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got := string(b.bytes()); got != "abcde" {
		t.Errorf("got %q", got)
	}
}

// What a driver's mistake is called in a report has a remedy.
func TestEveryFaultHasARemedy(t *testing.T) {
	for code := range 40 {
		if f := driverFault("nvmlInit", code, "x"); f.Remedy == "" || !strings.Contains(f.Text, "nvmlInit gave error") {
			t.Errorf("%d: %+v", code, f)
		}
	}
}
