package doctor

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/doctor/visible"
)

// Sources are what Gather asks beside the operating system.
type Sources struct {
	Lookup    func(string) (string, bool) // environment
	LogDir    string                      // where run directories lie, or will
	Devices   func(context.Context) (probe.Machine, error)
	Libraries func(context.Context) ([]probe.Library, error)
	Worker    func() (string, error) // path of ddpworker
}

// Gather collects the facts. It does not fail: what cannot be found out is
// among the facts.
func Gather(ctx context.Context, s Sources) Facts {
	f := Facts{Host: GatherQuick(s.Lookup)}
	f.Host.gather(s.LogDir)
	value, set := s.Lookup(visible.Variable)
	var err error
	if f.Machine, err = s.Devices(ctx); err != nil {
		f.MachineError = err.Error()
	} else if f.Visible, err = visible.Read(value, set, f.Machine); err != nil {
		f.VisibleError = err.Error()
	}
	if f.Libraries, err = s.Libraries(ctx); err != nil {
		f.LibrariesError = err.Error()
	}
	if f.Worker, err = s.Worker(); err != nil {
		f.WorkerError = err.Error()
	}
	return f
}

// GatherQuick collects what Quick looks at of the host.
func GatherQuick(lookup func(string) (string, bool)) Host {
	h := Host{OS: runtime.GOOS, Interfaces: interfaces(), NCCL: ncclSettings(lookup, os.Environ())}
	h.DeviceOrder, _ = lookup("CUDA_DEVICE_ORDER")
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		h.Shm = new(space("/dev/shm"))
	}
	found, _ := filepath.Glob("/sys/class/infiniband/*") // the only error is a bad pattern
	for _, dir := range found {
		h.RDMA = append(h.RDMA, filepath.Base(dir))
	}
	return h
}

// gather adds what takes longer.
func (h *Host) gather(logDir string) {
	h.Kernel = kernel()
	h.CPUs = runtime.NumCPU()
	h.AVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	h.Memory, h.MemoryFree = memory("/proc/meminfo")
	h.CPUQuota, h.MemoryLimit = controlGroup("")
	h.Memlock = memlock()
	h.NoFile = noFile()
	h.RunDir = runDir(logDir)
}

// interfaces lists those that are up and have an address.
func interfaces() []Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []Interface
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 || len(addrs) == 0 {
			continue
		}
		one := Interface{Name: i.Name}
		for _, a := range addrs {
			one.Addresses = append(one.Addresses, a.String())
		}
		out = append(out, one)
	}
	return out
}

// ncclSettings is what NCCL would read: the environment, then ~/.nccl.conf or
// the file that NCCL_CONF_FILE names, then /etc/nccl.conf; the first to name a
// variable wins.
func ncclSettings(lookup func(string) (string, bool), environ []string) []Setting {
	var out []Setting
	add := func(name, value, from string) {
		if !slices.ContainsFunc(out, func(s Setting) bool { return s.Name == name }) {
			out = append(out, Setting{name, value, from})
		}
	}
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "NCCL_") {
			if value, ok := lookup(name); ok {
				add(name, value, "environment")
			}
		}
	}
	slices.SortFunc(out, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	var files []string
	if file, _ := lookup("NCCL_CONF_FILE"); file != "" {
		files = append(files, file)
	} else if home, _ := lookup("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".nccl.conf"))
	}
	for _, file := range append(files, "/etc/nccl.conf") {
		readSettings(file, add)
	}
	return out
}

func readSettings(file string, add func(name, value, from string)) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "NCCL_") {
			add(strings.TrimSpace(name), strings.TrimSpace(value), file)
		}
	}
}

// memory reads the kernel's table; bytes.
func memory(file string) (total, available uint64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 64)
		switch {
		case err != nil:
		case fields[0] == "MemTotal:":
			total = kib << 10
		case fields[0] == "MemAvailable:":
			available = kib << 10
		}
	}
	return total, available
}

// noFile asks a shell: the Go runtime raises its own limit and gives children
// the old one, which is what a rank starts with.
func noFile() *Limit {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", "ulimit -Sn; ulimit -Hn").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		return nil
	}
	number := func(word string) (uint64, error) {
		if word == "unlimited" {
			return Unlimited, nil
		}
		return strconv.ParseUint(word, 10, 64)
	}
	soft, errSoft := number(words[0])
	hard, errHard := number(words[1])
	if errSoft != nil || errHard != nil {
		return nil
	}
	return &Limit{soft, hard}
}

// runDir looks at the folder of run directories, or at the one in which it
// would be made.
func runDir(dir string) Space {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Space{Path: dir, Error: err.Error()}
	}
	for {
		info, err := os.Stat(abs)
		switch {
		case err == nil && !info.IsDir():
			return Space{Path: abs, Error: "it is not a folder"}
		case err == nil:
			return writableSpace(abs)
		case abs == filepath.Dir(abs):
			return Space{Path: abs, Error: err.Error()}
		}
		abs = filepath.Dir(abs)
	}
}

func writableSpace(dir string) Space {
	s := space(dir)
	if s.Error == "" {
		if err := writable(dir); err != nil {
			s.Error = "not writable: " + err.Error()
		}
	}
	return s
}
