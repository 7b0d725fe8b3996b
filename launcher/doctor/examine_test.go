package doctor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/doctor/visible"
)

// fit is a machine with two GPUs and nothing wrong.
func fit() Facts {
	f := Facts{
		Host: Host{
			OS: "linux", Kernel: "6.1.0-18-amd64", CPUs: 64, AVX2: true,
			Memory: 512 << 30, MemoryFree: 500 << 30,
			Shm: &Space{Path: "/dev/shm", Total: 256 << 30, Free: 256 << 30}, RunDir: Space{Path: "/runs", Total: 1 << 40, Free: 1 << 40},
			Memlock: &Limit{Unlimited, Unlimited}, NoFile: &Limit{65536, 1 << 20},
			Interfaces: []Interface{{"lo", []string{"127.0.0.1/8", "::1/128"}}, {"eth0", []string{"10.0.0.5/24"}}},
		},
		Machine: probe.Machine{
			Source: "nvml", Driver: "550.54.15", CUDA: 12040,
			GPUs:  []probe.GPU{gpu(0), gpu(1)},
			Links: []probe.Link{{A: 0, B: 1, Kind: "NV18", P2P: true}},
		},
		Libraries: []probe.Library{
			{Name: "NCCL", Path: "/lib/libnccl.so.2", Version: "2.21.5", CUDA: 12040},
			{Name: "cuBLAS", Path: "/lib/libcublasLt.so.12", Version: "12.4.5", CUDA: 12040},
			{Name: "cuDNN", Path: "/lib/libcudnn.so.9", Version: "9.1.0", CUDA: 12040},
			{Name: "OpenBLAS", Path: "/lib/libopenblas.so.0", Version: "0.3.21"},
		},
		Worker: "/bin/ddpworker",
	}
	f.see()
	return f
}

func (f *Facts) see() {
	list, err := visible.Read("", false, f.Machine)
	if err != nil {
		f.VisibleError = err.Error()
	}
	f.Visible = list
}

func gpu(index int) probe.GPU {
	node, on := 0, true
	return probe.GPU{
		Index: index, UUID: "GPU-" + string(rune('a'+index)), Name: "H200", NUMA: &node, CPUs: "0-31",
		MemoryTotal: 140 << 30, MemoryUsed: 500 << 20, Capability: "9.0", ComputeMode: "default", Persistence: &on,
		MIG: &probe.MIG{}, ECC: &probe.ECC{Enabled: true}, Throttle: []string{"idle"}, Temperature: 30, PowerWatts: 75, PowerLimit: 700,
		PCIeWidth: 16, PCIeMaxWidth: 16, NVLinks: 18, Fabric: "completed",
	}
}

func TestFitMachine(t *testing.T) {
	for _, f := range Examine(fit()) {
		if f.Status != Pass && f.Check != "clock" {
			t.Errorf("%+v", f)
		}
	}
	if wrong := Quick(fit(), 2); len(wrong) > 0 {
		t.Errorf("quick: %+v", wrong)
	}
}

// A machine without GPU is fit: each check that is about one is a line.
func TestMachineWithoutGPU(t *testing.T) {
	f := fit()
	f.Machine = probe.Machine{Absent: "no driver library"}
	f.see()
	f.Worker, f.WorkerError = "", "no program"
	f.Libraries = nil
	found := Examine(f)
	if unfit := Unfit(found); len(unfit) > 0 {
		t.Errorf("unfit: %v", unfit)
	}
	lines := map[string]int{}
	for _, one := range found {
		lines[one.Check]++
		if one.Status == Warn {
			t.Errorf("%+v", one)
		}
	}
	for _, check := range []string{"driver", "gpu", "links", "numa", "worker", "nccl", "cublas", "cudnn", "network"} {
		if lines[check] != 1 {
			t.Errorf("%s: %d lines", check, lines[check])
		}
	}
}

func TestRules(t *testing.T) {
	g := func(change func(*probe.GPU)) func(*Facts) { return func(f *Facts) { change(&f.Machine.GPUs[1]) } }
	host := func(change func(*Host)) func(*Facts) { return func(f *Facts) { change(&f.Host) } }
	set := func(name, value string) func(*Facts) {
		return host(func(h *Host) { h.NCCL = append(h.NCCL, Setting{name, value, "environment"}) })
	}
	library := func(name string, change func(*probe.Library)) func(*Facts) {
		return func(f *Facts) {
			for i := range f.Libraries {
				if f.Libraries[i].Name == name {
					change(&f.Libraries[i])
				}
			}
		}
	}
	without := func(name string) func(*Facts) {
		return library(name, func(l *probe.Library) { l.Path = "" })
	}
	both := func(a, b func(*Facts)) func(*Facts) { return func(f *Facts) { a(f); b(f) } }
	noWorker := func(f *Facts) { f.Worker, f.WorkerError = "", "no program /bin/ddpworker" }

	for name, c := range map[string]struct {
		change func(*Facts)
		check  string
		status Status
		say    string
		quick  bool // before a launch too
	}{
		"driver broken":      {func(f *Facts) { f.MachineError = "error 18"; f.Machine = probe.Machine{} }, "driver", Fail, "error 18", false},
		"without cgo":        {func(f *Facts) { f.Machine.Source = "/proc/driver/nvidia" }, "driver", Warn, "without cgo", false},
		"list refused":       {func(f *Facts) { f.VisibleError = `entry 1, "9"` }, "visible", Fail, `"9"`, false},
		"list empty":         {func(f *Facts) { f.Visible = visible.List{Why: "the list is empty"} }, "visible", Warn, "list is empty", false},
		"mixed kinds":        {g(func(g *probe.GPU) { g.Name = "A100" }), "visible", Warn, "several kinds", false},
		"mixed but in order": {both(g(func(g *probe.GPU) { g.Name = "A100" }), host(func(h *Host) { h.DeviceOrder = "PCI_BUS_ID" })), "visible", Pass, "2 of 2", false},

		"lost":                {g(func(g *probe.GPU) { g.Fault = "error 15" }), "gpu", Fail, "GPU 1 does not answer", true},
		"too old":             {g(func(g *probe.GPU) { g.Capability = "6.1" }), "gpu", Fail, "6.1", true},
		"old enough":          {g(func(g *probe.GPU) { g.Capability = "7.0" }), "gpu", Pass, "7.0", false},
		"newer than version":  {g(func(g *probe.GPU) { g.Capability = "12.0" }), "gpu", Pass, "12.0", false},
		"prohibited":          {g(func(g *probe.GPU) { g.ComputeMode = "prohibited" }), "gpu", Fail, "prohibited", true},
		"in use":              {g(func(g *probe.GPU) { g.Processes = []probe.Process{{PID: 77, Name: "python", Memory: 3 << 30}} }), "gpu", Warn, "77 (python) with 3.0 GiB", true},
		"in use, unseen":      {g(func(g *probe.GPU) { g.MemoryUsed = 60 << 30 }), "gpu", Warn, "60.0 GiB of 140.0 GiB taken by nobody", true},
		"memory broken":       {g(func(g *probe.GPU) { g.ECC.RepairFailed = true }), "gpu", Fail, "no spare rows", true},
		"memory to repair":    {g(func(g *probe.GPU) { g.ECC.PendingRepair = true }), "gpu", Warn, "wait for a reset", true},
		"memory errors":       {g(func(g *probe.GPU) { g.ECC.Uncorrected = 3 }), "gpu", Warn, "3 uncorrected", true},
		"corrected errors":    {g(func(g *probe.GPU) { g.ECC.Corrected = 3 }), "gpu", Pass, "", false},
		"hot":                 {g(func(g *probe.GPU) { g.Throttle, g.Temperature = []string{"temperature (hardware)"}, 91 }), "gpu", Warn, "91 C", true},
		"at its power limit":  {g(func(g *probe.GPU) { g.Throttle = []string{"power limit"} }), "gpu", Pass, "power limit", false},
		"few lanes":           {g(func(g *probe.GPU) { g.PCIeWidth = 8 }), "gpu", Warn, "8 of 16 PCIe lanes", true},
		"link down":           {g(func(g *probe.GPU) { g.NVLinks, g.NVLinksDown = 17, 1 }), "gpu", Warn, "1 of 18 NVLinks down", true},
		"no fabric":           {g(func(g *probe.GPU) { g.Fabric = "in progress" }), "gpu", Fail, "fabric is in progress", true},
		"driver tells little": {g(func(g *probe.GPU) { *g = probe.GPU{Index: 1, Name: "H200"} }), "gpu", Pass, "GPU 1: H200", false},

		"no direct access": {func(f *Facts) { f.Machine.Links = []probe.Link{{A: 0, B: 1, Kind: "SYS"}} }, "links", Warn, "no direct access between 0-1", false},
		"over processors":  {func(f *Facts) { f.Machine.Links[0].Kind = "SYS" }, "links", Pass, "link between processors", false},
		"links unknown":    {func(f *Facts) { f.Machine.Links = nil }, "links", Skip, "", false},
		"one GPU":          {func(f *Facts) { f.Machine.GPUs = f.Machine.GPUs[:1] }, "links", Skip, "one GPU", false},
		"NUMA unknown":     {func(f *Facts) { f.Machine.GPUs[0].NUMA, f.Machine.GPUs[1].NUMA = nil, nil }, "numa", Skip, "does not say", false},

		"no worker":           {noWorker, "worker", Warn, "no program", false},
		"no NCCL":             {without("NCCL"), "nccl", Fail, "no usable NCCL", false},
		"no NCCL, one GPU":    {both(without("NCCL"), func(f *Facts) { f.Machine.GPUs = f.Machine.GPUs[:1] }), "nccl", Warn, "no usable NCCL", false},
		"no NCCL, no worker":  {both(without("NCCL"), noWorker), "nccl", Warn, "no usable NCCL", false},
		"NCCL too new":        {library("NCCL", func(l *probe.Library) { l.CUDA = 13000 }), "nccl", Fail, "CUDA 13.0, which driver 550.54.15 does not serve (it needs 580 or later)", false},
		"NCCL of a minor":     {library("NCCL", func(l *probe.Library) { l.CUDA = 12080 }), "nccl", Pass, "CUDA 12.8", false},
		"NCCL of nobody":      {library("NCCL", func(l *probe.Library) { l.CUDA = 0 }), "nccl", Pass, "2.21.5", false},
		"no cuBLAS":           {without("cuBLAS"), "cublas", Fail, "no cuBLASLt", false},
		"no cuBLAS or worker": {both(without("cuBLAS"), noWorker), "cublas", Warn, "no cuBLASLt", false},
		"two cuBLAS": {func(f *Facts) {
			f.Libraries = append(f.Libraries, probe.Library{Name: "cuBLAS", Path: "/13", Version: "13.1.0", CUDA: 13010})
		}, "cublas", Pass, "not usable: 13.1.0", false},
		"no cuDNN":          {without("cuDNN"), "cudnn", Skip, "no cuDNN", false},
		"libraries crashed": {func(f *Facts) { f.LibrariesError = "SIGSEGV" }, "nccl", Warn, "SIGSEGV", false},
		"no OpenBLAS":       {without("OpenBLAS"), "openblas", Pass, "own AVX2", false},
		"no vectors":        {both(without("OpenBLAS"), host(func(h *Host) { h.AVX2 = false })), "openblas", Warn, "no AVX2", false},

		"no such interface": {set("NCCL_SOCKET_IFNAME", "ib9"), "network", Fail, "NCCL_SOCKET_IFNAME=ib9", false},
		"the same, quick":   {set("NCCL_SOCKET_IFNAME", "ib9"), "settings", Warn, "no interface that is up", true},
		"RDMA":              {host(func(h *Host) { h.RDMA = []string{"mlx5_0"} }), "network", Pass, "mlx5_0", false},
		"P2P off":           {set("NCCL_P2P_DISABLE", "1"), "settings", Warn, "host memory", true},
		"P2P not off":       {set("NCCL_P2P_DISABLE", "0"), "settings", Pass, "do not read", false},
		"trace":             {set("NCCL_DEBUG", "TRACE"), "settings", Warn, "slows", true},
		"info":              {set("NCCL_DEBUG", "INFO"), "settings", Pass, "how much", false},
		"one file":          {set("NCCL_DEBUG_FILE", "/tmp/x"), "settings", Warn, "same file", true},
		"file each":         {set("NCCL_DEBUG_FILE", "/tmp/x.%p"), "settings", Pass, "", false},
		"IB off, none":      {set("NCCL_IB_DISABLE", "1"), "settings", Pass, "sockets instead", false},
		"IB off, some":      {both(set("NCCL_IB_DISABLE", "1"), host(func(h *Host) { h.RDMA = []string{"mlx5_0"} })), "settings", Warn, "mlx5_0", true},
		"wrong HCA":         {both(set("NCCL_IB_HCA", "=mlx4_0:1"), host(func(h *Host) { h.RDMA = []string{"mlx5_0"} })), "settings", Warn, "no InfiniBand", true},
		"right HCA":         {both(set("NCCL_IB_HCA", "mlx5"), host(func(h *Host) { h.RDMA = []string{"mlx5_0"} })), "settings", Pass, "", false},
		"family":            {set("NCCL_SOCKET_FAMILY", "IPv6"), "settings", Warn, "does not know", true},
		"unheard of":        {set("NCCL_SPEEDUP", "1"), "settings", Warn, "not among", true},

		"old kernel":      {host(func(h *Host) { h.Kernel = "4.18.0-553.el8" }), "kernel", Warn, "4.18", false},
		"kernel 5.15":     {host(func(h *Host) { h.Kernel = "5.15.0-1" }), "kernel", Pass, "5.15", false},
		"another system":  {host(func(h *Host) { h.OS = "darwin" }), "kernel", Warn, "darwin", false},
		"CPU quota":       {host(func(h *Host) { h.CPUQuota = 2.5 }), "cpu", Warn, "2.5", false},
		"ample quota":     {host(func(h *Host) { h.CPUQuota = 64 }), "cpu", Pass, "64", false},
		"memory limit":    {host(func(h *Host) { h.MemoryLimit = 8 << 30 }), "memory", Pass, "allows 8.0 GiB", false},
		"no memory":       {host(func(h *Host) { h.MemoryFree = 100 << 20 }), "memory", Warn, "100 MiB of", false},
		"docker's shm":    {host(func(h *Host) { h.Shm = &Space{Total: 64 << 20, Free: 64 << 20} }), "shm", Warn, "64 MiB in all", true},
		"shm is full":     {host(func(h *Host) { h.Shm.Free = 1 << 20 }), "shm", Warn, "only 1 MiB", true},
		"no shm":          {host(func(h *Host) { h.Shm = nil }), "shm", Warn, "no /dev/shm", true},
		"memlock":         {host(func(h *Host) { h.Memlock.Soft = 8 << 20 }), "memlock", Pass, "8 MiB", false},
		"memlock, RDMA":   {host(func(h *Host) { h.Memlock.Soft, h.RDMA = 8<<20, []string{"mlx5_0"} }), "memlock", Warn, "needs it unlimited", false},
		"few files":       {host(func(h *Host) { h.NoFile = &Limit{1024, 1024} }), "nofile", Warn, "1024 files", false},
		"files unlimited": {host(func(h *Host) { h.NoFile = &Limit{Unlimited, Unlimited} }), "nofile", Pass, "unlimited", false},
		"disk low":        {host(func(h *Host) { h.RunDir.Free = 1 << 30 }), "disk", Warn, "1.0 GiB", false},
		"disk full":       {host(func(h *Host) { h.RunDir.Free = 1 << 20 }), "disk", Fail, "1 MiB", false},
		"not writable":    {host(func(h *Host) { h.RunDir.Error = "not writable" }), "disk", Fail, "not writable", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := fit()
			f.see()
			list := f.Visible
			c.change(&f)
			if f.Visible.Why == "" { // not the change itself
				f.Visible.Devices = list.Devices[:len(f.Machine.GPUs)]
				for i := range f.Visible.Devices {
					f.Visible.Devices[i].GPU = &f.Machine.GPUs[i]
				}
			}
			if !has(Examine(f), c.check, c.status, c.say) {
				t.Errorf("no %s %s %q in %+v", c.status, c.check, c.say, Examine(f))
			}
			for _, one := range Examine(f) {
				if (one.Remedy != "") != (one.Status == Warn || one.Status == Fail) {
					t.Errorf("remedy of %+v", one)
				}
			}
			quick := Quick(f, 2)
			if has(quick, c.check, c.status, c.say) != c.quick {
				t.Errorf("quick: %+v", quick)
			}
		})
	}
}

func has(fs []Finding, check string, status Status, say string) bool {
	for _, f := range fs {
		if f.Check == check && f.Status == status && strings.Contains(f.Text, say) {
			return true
		}
	}
	return false
}

func TestExclusiveGPUs(t *testing.T) {
	f := fit()
	f.Machine.GPUs[0].ComputeMode = "exclusive"
	if wrong := Quick(f, 2); len(wrong) > 0 {
		t.Errorf("a rank each: %+v", wrong)
	}
	if !has(Quick(f, 3), "gpu", Fail, "exclusive") {
		t.Error("three ranks on two exclusive GPUs are let through")
	}
}

// A GPU that is not going to be used does not stop a launch.
func TestQuickLooksAtVisibleGPUs(t *testing.T) {
	f := fit()
	f.Machine.GPUs[1].Fault = "error 15"
	f.Visible.Devices = f.Visible.Devices[:1]
	if wrong := Quick(f, 1); len(wrong) > 0 {
		t.Errorf("got %+v", wrong)
	}
}

func TestDriversAndCUDA(t *testing.T) {
	for _, c := range []struct {
		driver     string
		serves, of int
		want       bool
	}{
		{"550.54.15", 12040, 12080, true},
		{"550.54.15", 12040, 11080, true},
		{"550.54.15", 12040, 13000, false},
		{"550.54.15", 13000, 13000, true}, // a compatibility package
		{"525.60.13", 0, 12080, true},
		{"525.60.12", 0, 12000, false},
		{"450.80.02", 0, 11080, true},
		{"450.51.06", 0, 11080, false},
		{"580.65.06", 0, 13010, true},
		{"575.57.08", 0, 13000, false},
		{"999.01", 0, 14000, true}, // not in the table
		{"550.54.15", 12040, 0, true},
	} {
		m := probe.Machine{Driver: c.driver, CUDA: c.serves}
		if got, why := fits(m, c.of); got != c.want || got != (why == "") {
			t.Errorf("%+v: %v, %q", c, got, why)
		}
	}
}

func TestEverySettingIsExplained(t *testing.T) {
	for name, s := range settings {
		if !strings.HasPrefix(name, "NCCL_") || s.does == "" {
			t.Errorf("%s: %+v", name, s)
		}
		f := fit()
		f.Host.NCCL = []Setting{{name, "1", "environment"}}
		if got := checkSettings(f); len(got) != 1 || !strings.Contains(got[0].Text, s.does) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReports(t *testing.T) {
	fs := []Finding{pass("driver", "550"), warn("gpu", "cool it", "hot <90>"), fail("disk", "make room", "full"), fail("disk", "make more", "fuller"), skip("clock", "one node")}
	var text, data bytes.Buffer
	if err := Write(&text, fs); err != nil {
		t.Fatal(err)
	}
	want := `PASS  driver  550
WARN  gpu     hot <90>
              -> cool it
FAIL  disk    full
              -> make room
FAIL  disk    fuller
              -> make more
SKIP  clock   one node
1 passed, 1 warnings, 2 failed, 1 do not apply
`
	if text.String() != want {
		t.Errorf("got\n%s", text.String())
	}
	if err := WriteJSON(&data, fs, fit()); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Fit      bool
		Findings []Finding
		Facts    Facts
	}
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || back.Fit || len(back.Findings) != 5 || back.Facts.Machine.GPUs[1].NVLinks != 18 {
		t.Errorf("%v: %+v", err, back)
	}
	if got := Unfit(fs); len(got) != 1 || got[0] != "disk" {
		t.Errorf("unfit: %v", got)
	}
	if got := fs[1].Sentence(); got != "gpu: hot <90>; cool it" {
		t.Errorf("sentence: %s", got)
	}
}
