package probe

// Machine is what the driver says of this machine's GPUs.
type Machine struct {
	// Source is what was asked: "nvml", or "/proc/driver/nvidia" in a program
	// that was built without cgo.
	Source string `json:"source,omitempty"`
	Driver string `json:"driver,omitempty"` // version of the kernel driver, 535.129.03
	CUDA   int    `json:"cuda,omitempty"`   // newest CUDA the driver serves, 12040 is 12.4; 0: not told
	// Absent says why this machine has no GPU to offer, and that nothing is
	// wrong with that. Empty when a driver answered.
	Absent string `json:"absent,omitempty"`
	// Fault is what is wrong with a driver that is there.
	Fault *Fault `json:"fault,omitempty"`
	GPUs  []GPU  `json:"gpus,omitempty"`
	Links []Link `json:"links,omitempty"` // between GPUs, one for each pair
}

// Fault is what is wrong and what to do about it.
type Fault struct {
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// GPU is one device. What the driver or the device does not tell is nil, zero
// or empty.
type GPU struct {
	Index int    `json:"index"` // the driver's number, in the order of PCI addresses
	UUID  string `json:"uuid"`
	Name  string `json:"name,omitempty"`
	Fault string `json:"fault,omitempty"` // the driver's words on a device that does not answer

	PCI  string `json:"pci,omitempty"` // 0000:3b:00.0
	NUMA *int   `json:"numa,omitempty"`
	CPUs string `json:"cpus,omitempty"` // the processors near it, 0-15,32-47

	MemoryTotal uint64    `json:"memory_total,omitempty"` // bytes
	MemoryUsed  uint64    `json:"memory_used,omitempty"`
	Processes   []Process `json:"processes,omitempty"` // that compute on it

	Capability  string `json:"capability,omitempty"`   // compute capability, 9.0
	ComputeMode string `json:"compute_mode,omitempty"` // default | exclusive | prohibited
	Persistence *bool  `json:"persistence,omitempty"`
	MIG         *MIG   `json:"mig,omitempty"`
	ECC         *ECC   `json:"ecc,omitempty"`

	Throttle    []string `json:"throttle,omitempty"` // what holds its clocks down now, see Slows
	Temperature int      `json:"temperature,omitempty"`
	PowerWatts  int      `json:"power_watts,omitempty"`
	PowerLimit  int      `json:"power_limit_watts,omitempty"`

	PCIeWidth    int    `json:"pcie_width,omitempty"` // lanes in use
	PCIeMaxWidth int    `json:"pcie_max_width,omitempty"`
	NVLinks      int    `json:"nvlinks,omitempty"`      // that are up
	NVLinksDown  int    `json:"nvlinks_down,omitempty"` // that are there and down
	Fabric       string `json:"fabric,omitempty"`       // not started | in progress | completed | failed
}

// Process is one that computes on a GPU.
type Process struct {
	PID    int    `json:"pid"`
	Name   string `json:"name,omitempty"` // empty: of another PID namespace
	Memory uint64 `json:"memory,omitempty"`
}

// MIG is a GPU's partitioning.
type MIG struct {
	Enabled bool       `json:"enabled"`
	Slices  []MIGSlice `json:"slices,omitempty"`
}

// MIGSlice is one part that a process can be given.
type MIGSlice struct {
	UUID        string `json:"uuid"`
	Name        string `json:"name,omitempty"`
	MemoryTotal uint64 `json:"memory_total,omitempty"`
}

// ECC counts memory errors since the driver was loaded.
type ECC struct {
	Enabled     bool   `json:"enabled"`
	Corrected   uint64 `json:"corrected"`
	Uncorrected uint64 `json:"uncorrected"`
	// PendingRepair: rows or pages wait for a reset of the GPU to be replaced.
	PendingRepair bool `json:"pending_repair,omitempty"`
	// RepairFailed: no spare row was left; the GPU has to be replaced.
	RepairFailed bool `json:"repair_failed,omitempty"`
}

// Link is how two GPUs reach each other, in the words of nvidia-smi topo: NV18
// for 18 NVLinks, PIX, PXB, PHB, NODE or SYS for ever longer ways over PCI.
type Link struct {
	A    int    `json:"a"` // Index of a GPU
	B    int    `json:"b"`
	Kind string `json:"kind"`
	P2P  bool   `json:"p2p"` // each reads the other's memory directly
}

// Library is one that GPU training uses.
type Library struct {
	Name    string `json:"name"`              // NCCL, cuBLAS, cuDNN, OpenBLAS
	Path    string `json:"path,omitempty"`    // what was opened; empty: none was
	Version string `json:"version,omitempty"` // in its own words, 2.21.5
	CUDA    int    `json:"cuda,omitempty"`    // it was built for, 12040 is 12.4; 0: not known
	// Tried says what was looked for where, and what was wrong with each.
	Tried []string `json:"tried,omitempty"`
}
