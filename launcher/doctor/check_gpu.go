package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddprun/ddprun/launcher/doctor/probe"
)

// hasGPUs says whether there is anything for the checks about GPUs to look at.
func (f Facts) hasGPUs() bool { return f.MachineError == "" && len(f.Machine.GPUs) > 0 }

// noGPU says why there is not.
func (f Facts) noGPU() string {
	if f.MachineError != "" {
		return "not examined: the driver does not work"
	}
	return "no GPU"
}

func checkDriver(f Facts) []Finding {
	const check = "driver"
	m := f.Machine
	switch {
	case f.MachineError != "":
		return []Finding{fail(check, "until then, device: cpu and --nproc-per-node=cpu work", "%s", f.MachineError)}
	case m.Absent != "":
		return []Finding{skip(check, "%s; jobs train on the processor", m.Absent)}
	case m.Source != "nvml":
		return []Finding{warn(check, "build ddprun with cgo to have GPUs examined", "%s, by %s alone: this ddprun was built without cgo and cannot ask the driver's library", m.Driver, m.Source)}
	case m.CUDA == 0:
		return []Finding{pass(check, "%s", m.Driver)}
	}
	return []Finding{pass(check, "%s, serves CUDA up to %s", m.Driver, cudaText(m.CUDA))}
}

func checkVisible(f Facts) []Finding {
	const check = "visible"
	switch {
	case f.VisibleError != "":
		return []Finding{fail(check, "correct the list or unset it", "%s", f.VisibleError)}
	case !f.hasGPUs():
		return nil // the driver's line has said it
	case len(f.Visible.Devices) == 0:
		return []Finding{warn(check, "unset CUDA_VISIBLE_DEVICES to use the GPUs", "none of %d GPUs: %s", len(f.Machine.GPUs), f.Visible.Why)}
	}
	out := []Finding{pass(check, "%d of %d GPUs to hand out", len(f.Visible.Devices), len(f.Machine.GPUs))}
	for _, note := range f.Visible.Notes {
		out = append(out, warn(check, "ddprun devices shows what is handed out", "%s", note))
	}
	if order := mixedOrder(f); order != "" {
		out = append(out, warn(check, "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID", "%s", order))
	}
	return out
}

// mixedOrder says when CUDA may number GPUs otherwise than the driver: it puts
// the fastest first unless it is told not to.
func mixedOrder(f Facts) string {
	first := f.Machine.GPUs[0].Name
	for _, g := range f.Machine.GPUs {
		if g.Name != first && f.Host.DeviceOrder != "PCI_BUS_ID" {
			return fmt.Sprintf("the GPUs are of several kinds (%s, %s): CUDA numbers them otherwise than nvidia-smi and ddprun devices do", first, g.Name)
		}
	}
	return ""
}

func checkGPUs(f Facts) []Finding {
	var out []Finding
	if !f.hasGPUs() {
		return []Finding{skip("gpu", "%s", f.noGPU())}
	}
	for _, g := range f.Machine.GPUs {
		wrong := health(g, len(f.Machine.GPUs) > 1)
		if len(wrong) == 0 {
			wrong = []Finding{pass("gpu", "%s", describe(g))}
		}
		out = append(out, wrong...)
	}
	return out
}

// describe is a GPU in one line.
func describe(g probe.GPU) string {
	parts := []string{fmt.Sprintf("GPU %d: %s", g.Index, g.Name)}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if g.MemoryTotal > 0 {
		add("%s, %s in use", size(g.MemoryTotal), size(g.MemoryUsed))
	}
	if g.Capability != "" {
		add("compute capability %s", g.Capability)
	}
	if g.MIG != nil && g.MIG.Enabled {
		add("%d MIG slices", len(g.MIG.Slices))
	}
	if g.ECC != nil {
		add("ECC %s", map[bool]string{true: "on, no errors", false: "off"}[g.ECC.Enabled])
	}
	if g.Temperature > 0 {
		add("%d C", g.Temperature)
	}
	if g.PowerLimit > 0 {
		add("%d of %d W", g.PowerWatts, g.PowerLimit)
	}
	if held := slices.DeleteFunc(slices.Clone(g.Throttle), func(r string) bool { return r == "idle" }); len(held) > 0 {
		add("clocks held by: %s", strings.Join(held, ", "))
	}
	if g.Persistence != nil && !*g.Persistence {
		add("persistence mode off (first use is slow; nvidia-smi -pm 1)")
	}
	return strings.Join(parts, ", ")
}

// oldest is the oldest compute capability that ddprun's kernels are built for.
const oldest = 7.0

// health lists what is wrong with a GPU. several: it is to work with others.
func health(g probe.GPU, several bool) []Finding {
	const check = "gpu"
	who := fmt.Sprintf("GPU %d (%s)", g.Index, g.Name)
	var out []Finding
	add := func(f Finding) { out = append(out, f) }
	if g.Fault != "" {
		return []Finding{fail(check, "look at dmesg for lines with Xid, then reset it (nvidia-smi --gpu-reset) or reboot", "GPU %d does not answer: %s", g.Index, g.Fault)}
	}
	if c, err := strconv.ParseFloat(g.Capability, 64); err == nil && c < oldest {
		add(fail(check, "leave it out with CUDA_VISIBLE_DEVICES, or train on the processor", "%s has compute capability %s, and %.1f is the oldest that is supported", who, g.Capability, oldest))
	}
	if g.ComputeMode == "prohibited" {
		add(fail(check, "nvidia-smi -c DEFAULT", "%s is in compute mode prohibited: no program may use it", who))
	}
	if f, ok := busy(g, who); ok {
		add(f)
	}
	if e := g.ECC; e != nil {
		switch {
		case e.RepairFailed:
			add(fail(check, "have the card replaced; leave it out with CUDA_VISIBLE_DEVICES until then", "%s has broken memory and no spare rows left", who))
		case e.PendingRepair:
			add(warn(check, "reset it when it is idle (nvidia-smi --gpu-reset) or reboot", "%s has memory rows that wait for a reset to be replaced", who))
		}
		if e.Uncorrected > 0 {
			add(warn(check, "reset it; if it happens again, have the card looked at", "%s has had %d uncorrected memory errors since the driver was loaded", who, e.Uncorrected))
		}
	}
	if slow := slowing(g.Throttle); len(slow) > 0 {
		add(warn(check, "look at cooling and power supply (nvidia-smi -q -d PERFORMANCE)", "%s is slowed down by %s, at %d C", who, strings.Join(slow, " and "), g.Temperature))
	}
	if g.PCIeWidth > 0 && g.PCIeWidth < g.PCIeMaxWidth {
		add(warn(check, "reseat the card, or move it to another slot", "%s uses %d of %d PCIe lanes", who, g.PCIeWidth, g.PCIeMaxWidth))
	}
	if g.NVLinksDown > 0 && g.NVLinks > 0 {
		add(warn(check, "nvidia-smi nvlink --status shows which; look at dmesg for Xid 74", "%s has %d of %d NVLinks down", who, g.NVLinksDown, g.NVLinks+g.NVLinksDown))
	}
	if g.Fabric != "" && g.Fabric != "completed" {
		f := warn(check, "start nvidia-fabricmanager in the driver's own version (systemctl status nvidia-fabricmanager)", "%s: setting up its NVLink fabric is %s", who, g.Fabric)
		if several {
			f.Status = Fail // CUDA does not start without it
		}
		add(f)
	}
	return out
}

// busy says when somebody else's work is on a GPU.
func busy(g probe.GPU, who string) (Finding, bool) {
	const check, remedy = "gpu", "end them, or choose other GPUs with CUDA_VISIBLE_DEVICES"
	if len(g.Processes) > 0 {
		var ps []string
		for _, p := range g.Processes {
			text := strconv.Itoa(p.PID)
			if p.Name != "" {
				text += " (" + p.Name + ")"
			}
			if p.Memory > 0 {
				text += " with " + size(p.Memory)
			}
			ps = append(ps, text)
		}
		return warn(check, remedy, "%s is in use, %s of %s taken: process %s", who, size(g.MemoryUsed), size(g.MemoryTotal), strings.Join(ps, ", ")), true
	}
	// The driver itself takes up to about 1 GiB of a large GPU.
	if g.MemoryUsed > 2<<30 && g.MemoryUsed > g.MemoryTotal/20 {
		return warn(check, "look for its owner in other containers (nvidia-smi on the host)", "%s has %s of %s taken by nobody that is seen from here", who, size(g.MemoryUsed), size(g.MemoryTotal)), true
	}
	return Finding{}, false
}

func slowing(reasons []string) []string {
	return slices.DeleteFunc(slices.Clone(reasons), func(r string) bool { return !probe.Slows(r) })
}

// checkSharing refuses several ranks on a GPU that takes one process.
func checkSharing(f Facts, ranks int) []Finding {
	n := len(f.Visible.Devices)
	if n == 0 || ranks <= n {
		return nil
	}
	for _, d := range f.Visible.Devices {
		if d.GPU != nil && d.GPU.ComputeMode == "exclusive" {
			return []Finding{fail("gpu", "start at most one rank for each GPU, or nvidia-smi -c DEFAULT", "%d ranks for %d GPUs, and GPU %d is in compute mode exclusive: it takes one process", ranks, n, d.GPU.Index)}
		}
	}
	return nil
}

func checkLinks(f Facts) []Finding {
	const check = "links"
	if !f.hasGPUs() {
		return []Finding{skip(check, "%s", f.noGPU())}
	}
	if len(f.Machine.GPUs) < 2 {
		return []Finding{skip(check, "one GPU")}
	}
	if len(f.Machine.Links) == 0 {
		return []Finding{skip(check, "the driver does not tell")}
	}
	kinds := map[string][]string{}
	var apart []string
	for _, l := range f.Machine.Links {
		pair := fmt.Sprintf("%d-%d", l.A, l.B)
		kinds[l.Kind] = append(kinds[l.Kind], pair)
		if !l.P2P {
			apart = append(apart, pair)
		}
	}
	var parts []string
	for _, kind := range sortedKeys(kinds) {
		pairs := strings.Join(kinds[kind], " ")
		if len(kinds) == 1 {
			pairs = "all pairs"
		}
		parts = append(parts, fmt.Sprintf("%s by %s", pairs, way(kind)))
	}
	text := "GPUs reach each other: " + strings.Join(parts, "; ")
	if len(apart) > 0 {
		return []Finding{warn(check, "NCCL goes through host memory there, which is slower; look at ACS and the IOMMU settings of the machine (nvidia-smi topo -p2p r)", "%s; no direct access between %s", text, strings.Join(apart, " "))}
	}
	return []Finding{pass(check, "%s", text)}
}

// way explains nvidia-smi's abbreviation.
func way(kind string) string {
	if n, ok := strings.CutPrefix(kind, "NV"); ok {
		return kind + " (" + n + " NVLinks)"
	}
	names := map[string]string{
		"PIX": "one PCIe switch", "PXB": "several PCIe switches", "PHB": "the PCIe host bridge",
		"NODE": "host bridges of one NUMA node", "SYS": "the link between processors",
	}
	if name := names[kind]; name != "" {
		return kind + " (" + name + ")"
	}
	return kind
}

func checkNUMA(f Facts) []Finding {
	const check = "numa"
	if !f.hasGPUs() {
		return []Finding{skip(check, "%s", f.noGPU())}
	}
	var parts []string
	for _, g := range f.Machine.GPUs {
		if g.NUMA != nil {
			parts = append(parts, fmt.Sprintf("GPU %d on node %d (CPUs %s)", g.Index, *g.NUMA, g.CPUs))
		}
	}
	if len(parts) == 0 {
		return []Finding{skip(check, "the machine does not say which processors are near which GPU, as in most virtual machines")}
	}
	return []Finding{pass(check, "%s", strings.Join(parts, ", "))}
}
