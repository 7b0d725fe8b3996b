package doctor

import (
	"github.com/ddprun/ddprun/launcher/doctor/probe"
	"github.com/ddprun/ddprun/launcher/doctor/visible"
)

// Facts is what was found on a machine. A text that ends in Error says why the
// facts beside it are missing.
type Facts struct {
	Host Host `json:"host"`

	Machine      probe.Machine `json:"machine"`
	MachineError string        `json:"machine_error,omitempty"`
	Visible      visible.List  `json:"-"`
	VisibleError string        `json:"visible_error,omitempty"`

	Libraries      []probe.Library `json:"libraries,omitempty"`
	LibrariesError string          `json:"libraries_error,omitempty"`

	Worker      string `json:"worker,omitempty"` // path of ddpworker
	WorkerError string `json:"worker_error,omitempty"`
}

// Host is what the operating system tells.
type Host struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel,omitempty"` // 6.1.0-18-amd64

	CPUs     int     `json:"cpus"`                // that this process may use
	CPUQuota float64 `json:"cpu_quota,omitempty"` // of the control group, in CPUs; 0: none
	AVX2     bool    `json:"avx2"`

	Memory      uint64 `json:"memory,omitempty"` // bytes
	MemoryFree  uint64 `json:"memory_available,omitempty"`
	MemoryLimit uint64 `json:"memory_limit,omitempty"` // of the control group; 0: none

	Shm     *Space `json:"shm,omitempty"` // /dev/shm; nil: there is none
	RunDir  Space  `json:"run_dir"`
	Memlock *Limit `json:"memlock,omitempty"` // bytes
	NoFile  *Limit `json:"nofile,omitempty"`  // what a rank gets

	Interfaces []Interface `json:"interfaces,omitempty"`
	RDMA       []string    `json:"rdma,omitempty"` // InfiniBand and RoCE devices
	NCCL       []Setting   `json:"nccl_settings,omitempty"`
	// DeviceOrder is CUDA_DEVICE_ORDER.
	DeviceOrder string `json:"cuda_device_order,omitempty"`
}

// Space is a file system.
type Space struct {
	Path  string `json:"path"`
	Total uint64 `json:"total"` // bytes
	Free  uint64 `json:"free"`  // for this user
	Error string `json:"error,omitempty"`
}

// Limit is a resource limit. Unlimited is all ones.
type Limit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Unlimited is the value of no limit.
const Unlimited = ^uint64(0)

// Interface is a network interface that is up.
type Interface struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // with the prefix length, 10.0.0.5/24
}

// Setting is a variable of NCCL and where it is set.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // environment, or a file
}
