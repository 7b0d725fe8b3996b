package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/launcher/doctor/probe"
)

func put(t *testing.T, root, name, text string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		cpus   float64
		memory uint64
	}{
		"none": {nil, 0, 0},
		"version 2": {map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.max":          "150000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max":        "max 100000\n",
			"sys/fs/cgroup/a/memory.max":       "1073741824\n",
			"sys/fs/cgroup/a/b/memory.max":     "2147483648\n",
			"sys/fs/cgroup/elsewhere/cpu.max":  "1 100000\n",
			"sys/fs/cgroup/a/b/c/memory.max":   "1\n",
			"sys/fs/cgroup/memory.max":         "max\n",
			"sys/fs/cgroup/cpu.max.unreadable": "",
		}, 1.5, 1 << 30},
		"container of version 2": {map[string]string{
			"proc/self/cgroup":         "0::/../host/path\n",
			"sys/fs/cgroup/cpu.max":    "400000 100000\n",
			"sys/fs/cgroup/memory.max": "max\n",
		}, 4, 0},
		"version 1": {map[string]string{
			"proc/self/cgroup":                                "4:memory:/j\n3:cpu,cpuacct:/j\n1:name=systemd:/\n",
			"sys/fs/cgroup/cpu/j/cpu.cfs_quota_us":            "200000\n",
			"sys/fs/cgroup/cpu/j/cpu.cfs_period_us":           "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":              "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":             "100000\n",
			"sys/fs/cgroup/memory/j/memory.limit_in_bytes":    "4294967296\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":      "9223372036854771712\n",
			"sys/fs/cgroup/memory/else/memory.limit_in_bytes": "1\n",
		}, 2, 4 << 30},
		"nonsense": {map[string]string{
			"proc/self/cgroup":         "x\n\n0::/\n",
			"sys/fs/cgroup/cpu.max":    "a b c\n",
			"sys/fs/cgroup/memory.max": "lots\n",
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				put(t, root, file, text)
			}
			if cpus, memory := controlGroup(root); cpus != c.cpus || memory != c.memory {
				t.Errorf("%g CPUs, %d bytes", cpus, memory)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	file := put(t, t.TempDir(), "meminfo", "MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable: 512 kB\nHugePages_Total: 0\n")
	if total, free := memory(file); total != 1<<20 || free != 512<<10 {
		t.Errorf("%d, %d", total, free)
	}
}

// The environment beats the user's file, which beats the machine's.
func TestSettingsHaveAnOrder(t *testing.T) {
	home := t.TempDir()
	file := put(t, home, ".nccl.conf", "# mine\nNCCL_DEBUG=INFO # not read\n NCCL_ALGO = Ring\nnonsense\nOTHER=1\n")
	env := map[string]string{"HOME": home, "NCCL_DEBUG": "WARN", "PATH": "x"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	got := ncclSettings(lookup, []string{"PATH=x", "NCCL_DEBUG=WARN", "HOME=" + home})
	want := []Setting{{"NCCL_DEBUG", "WARN", "environment"}, {"NCCL_ALGO", "Ring", file}}
	if len(got) < 2 || !reflect.DeepEqual(got[:2], want) {
		t.Errorf("got %+v", got)
	}
	env["NCCL_CONF_FILE"] = filepath.Join(home, "gone")
	for _, s := range ncclSettings(lookup, nil) {
		if s.From == file {
			t.Errorf("%s is read in spite of NCCL_CONF_FILE", file)
		}
	}
}

// NCCL's choice, case by case.
func TestInterfaces(t *testing.T) {
	all := []Interface{
		{"lo", []string{"127.0.0.1/8", "::1/128"}},
		{"docker0", []string{"172.17.0.1/16"}},
		{"eth0", []string{"fe80::1/64", "10.0.0.5/24"}},
		{"eth1", []string{"10.0.1.5/24"}},
		{"ib0", []string{"192.168.0.5/16"}},
		{"virbr0", []string{"192.168.122.1/24"}},
	}
	for _, c := range []struct {
		from []Interface
		set  map[string]string
		want string
	}{
		{all, nil, "ib0"},
		{all[:4], nil, "eth0 eth1"},
		{all[:2], nil, "docker0"},
		{all[:1], nil, "lo"},
		{all[5:], nil, "virbr0"},
		{nil, nil, ""},
		{[]Interface{{"lo", []string{"::1/128"}}}, nil, ""},
		{all, map[string]string{"NCCL_SOCKET_IFNAME": "eth"}, "eth0 eth1"},
		{all, map[string]string{"NCCL_SOCKET_IFNAME": "=eth"}, ""},
		{all, map[string]string{"NCCL_SOCKET_IFNAME": "=eth1,ib0:5000"}, "eth1 ib0"},
		{all, map[string]string{"NCCL_SOCKET_IFNAME": "^docker,lo,ib,virbr"}, "eth0 eth1"},
		{all, map[string]string{"NCCL_SOCKET_IFNAME": "^=eth0"}, "lo docker0 eth1 ib0 virbr0"},
		{all[:4], map[string]string{"NCCL_SOCKET_FAMILY": "AF_INET6"}, "eth0"},
		{all[:4], map[string]string{"NCCL_COMM_ID": "10.0.1.9:29500"}, "eth1"},
		{all[:4], map[string]string{"NCCL_COMM_ID": "somewhere:29500"}, "eth0 eth1"},
	} {
		got, why := chooseInterfaces(c.from, func(name string) string { return c.set[name] })
		var names []string
		for _, i := range got {
			names = append(names, i.Name)
		}
		if strings.Join(names, " ") != c.want || why == "" {
			t.Errorf("%v: %v (%s), want %s", c.set, names, why, c.want)
		}
	}
}

func TestRunDir(t *testing.T) {
	dir := t.TempDir()
	if s := runDir(filepath.Join(dir, "a", "b")); s.Path != dir || s.Error != "" {
		t.Errorf("to be made: %+v", s)
	}
	file := put(t, dir, "file", "")
	if s := runDir(filepath.Join(file, "x")); s.Error == "" {
		t.Errorf("below a file: %+v", s)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if s := runDir(dir); !strings.Contains(s.Error, "not writable") {
			t.Errorf("not writable: %+v", s)
		}
	}
}

// Whatever this machine is: all facts or the reason why not, and no failure.
func TestGather(t *testing.T) {
	none := errors.New("none here")
	env := map[string]string{"CUDA_VISIBLE_DEVICES": "0"}
	f := Gather(context.Background(), Sources{
		Lookup:    func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		LogDir:    t.TempDir(),
		Devices:   func(context.Context) (probe.Machine, error) { return probe.Machine{}, nil },
		Libraries: func(context.Context) ([]probe.Library, error) { return nil, none },
		Worker:    func() (string, error) { return "", none },
	})
	if f.Host.CPUs < 1 || f.Host.RunDir.Error != "" || f.LibrariesError != "none here" || f.WorkerError != "none here" || !strings.Contains(f.VisibleError, "no GPU 0") {
		t.Errorf("got %+v", f)
	}
	if f.Host.OS == "linux" && (f.Host.Kernel == "" || f.Host.Memory == 0 || f.Host.NoFile == nil || f.Host.Memlock == nil) {
		t.Errorf("got %+v", f.Host)
	}
}
