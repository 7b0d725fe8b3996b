//go:build cgo && linux && !nodl

package probe

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const nvmlName = "libnvidia-ml.so.1"

// Devices asks the driver through its management library. Only a short-lived
// process may call it: the library may crash, and keeps running after errors.
//
// Every function is looked up before it is called: go-nvml jumps to address 0
// for one that an older driver does not have.
func Devices() Machine {
	m := Machine{Source: "nvml"}
	lib := dl.New(nvmlName, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		if strings.Contains(err.Error(), "No such file") {
			return noDriver(m, "no driver library ("+nvmlName+" is not on the loader's path)", nvidiaHardware(""))
		}
		m.Fault = &Fault{
			Text:   "the driver's library cannot be opened: " + err.Error(),
			Remedy: "install the NVIDIA driver again, or take the file that is named off LD_LIBRARY_PATH",
		}
		return m
	}
	d := &driver{has: func(name string) bool { return lib.Lookup(name) == nil }}
	if !d.any("nvmlInit", "nvmlInit_v2") || !d.any("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2") || !d.any("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2") {
		m.Fault = &Fault{Text: "the driver's library " + nvmlName + " has no nvmlInit, nvmlDeviceGetCount or nvmlDeviceGetHandleByIndex", Remedy: "install the NVIDIA driver again"}
		return m
	}
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		hardware := nvidiaHardware("")
		if ret == nvmlDriverNotLoaded && len(hardware) == 0 {
			m.Absent = "no driver (its library is there, but no kernel module is loaded) and no NVIDIA hardware"
			return m
		}
		m.Fault = driverFault("nvmlInit", int(ret), d.text(ret))
		return m
	}
	d.machine(&m)
	return m
}

// driver is an opened NVML.
type driver struct{ has func(name string) bool }

func (d *driver) any(names ...string) bool {
	for _, name := range names {
		if d.has(name) {
			return true
		}
	}
	return false
}

func (d *driver) text(ret nvml.Return) string {
	if !d.has("nvmlErrorString") {
		return "no text"
	}
	return ret.Error()
}

// ask calls get if the driver has the function name and returns what it says;
// false if it has not or says an error.
func ask[T any](d *driver, name string, get func() (T, nvml.Return)) (T, bool) {
	var zero T
	if !d.has(name) {
		return zero, false
	}
	v, ret := get()
	if ret != nvml.SUCCESS {
		return zero, false
	}
	return v, true
}

func (d *driver) machine(m *Machine) {
	m.Driver, _ = ask(d, "nvmlSystemGetDriverVersion", nvml.SystemGetDriverVersion)
	m.CUDA, _ = ask(d, "nvmlSystemGetCudaDriverVersion_v2", nvml.SystemGetCudaDriverVersion_v2)
	count, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		m.Fault = driverFault("nvmlDeviceGetCount", int(ret), d.text(ret))
		return
	}
	handles := make([]nvml.Device, count)
	for i := range count {
		g := GPU{Index: i}
		if handles[i], ret = nvml.DeviceGetHandleByIndex(i); ret != nvml.SUCCESS {
			g.Fault = fmt.Sprintf("error %d (%s)", int(ret), d.text(ret))
			handles[i] = nil
		} else {
			d.identity(&g, handles[i])
			d.health(&g, handles[i])
			d.links(&g, handles[i])
		}
		m.GPUs = append(m.GPUs, g)
	}
	for a := range handles {
		for b := a + 1; b < len(handles); b++ {
			if l, ok := d.link(m, handles, a, b); ok {
				m.Links = append(m.Links, l)
			}
		}
	}
}

// identity is what a GPU is.
func (d *driver) identity(g *GPU, h nvml.Device) {
	g.UUID, _ = ask(d, "nvmlDeviceGetUUID", h.GetUUID)
	g.Name, _ = ask(d, "nvmlDeviceGetName", h.GetName)
	if d.any("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo_v3") {
		if pci, ret := h.GetPciInfo(); ret == nvml.SUCCESS {
			g.PCI = pciName(text(pci.BusId[:]))
		}
	}
	g.locate("")
	if d.has("nvmlDeviceGetCudaComputeCapability") {
		if major, minor, ret := h.GetCudaComputeCapability(); ret == nvml.SUCCESS {
			g.Capability = fmt.Sprintf("%d.%d", major, minor)
		}
	}
	if mode, ok := ask(d, "nvmlDeviceGetComputeMode", h.GetComputeMode); ok {
		g.ComputeMode = map[nvml.ComputeMode]string{
			nvml.COMPUTEMODE_DEFAULT: "default", nvml.COMPUTEMODE_PROHIBITED: "prohibited",
			nvml.COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive", nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive",
		}[mode]
	}
	if on, ok := ask(d, "nvmlDeviceGetPersistenceMode", h.GetPersistenceMode); ok {
		g.Persistence = new(on == nvml.FEATURE_ENABLED)
	}
	d.mig(g, h)
}

func (d *driver) mig(g *GPU, h nvml.Device) {
	if !d.has("nvmlDeviceGetMigMode") {
		return
	}
	current, _, ret := h.GetMigMode()
	if ret != nvml.SUCCESS {
		return
	}
	g.MIG = &MIG{Enabled: current == nvml.DEVICE_MIG_ENABLE}
	if !g.MIG.Enabled || !d.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return
	}
	most, _ := ask(d, "nvmlDeviceGetMaxMigDeviceCount", h.GetMaxMigDeviceCount)
	for i := range most {
		slice, ret := h.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // a place that is not in use
		}
		var s MIGSlice
		s.UUID, _ = ask(d, "nvmlDeviceGetUUID", slice.GetUUID)
		s.Name, _ = ask(d, "nvmlDeviceGetName", slice.GetName)
		if mem, ok := ask(d, "nvmlDeviceGetMemoryInfo", slice.GetMemoryInfo); ok {
			s.MemoryTotal = mem.Total
		}
		g.MIG.Slices = append(g.MIG.Slices, s)
	}
}

// health is how a GPU is at the moment.
func (d *driver) health(g *GPU, h nvml.Device) {
	if mem, ok := ask(d, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo); ok {
		g.MemoryTotal, g.MemoryUsed = mem.Total, mem.Used
	}
	if d.any("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3") {
		if ps, ret := h.GetComputeRunningProcesses(); ret == nvml.SUCCESS {
			for _, p := range ps {
				g.Processes = append(g.Processes, Process{PID: int(p.Pid), Name: processName(int(p.Pid)), Memory: known(p.UsedGpuMemory)})
			}
		}
	}
	d.ecc(g, h)
	if mask, ok := ask(d, "nvmlDeviceGetCurrentClocksThrottleReasons", h.GetCurrentClocksThrottleReasons); ok {
		g.Throttle = throttleReasons(mask)
	}
	if t, ok := ask(d, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return h.GetTemperature(nvml.TEMPERATURE_GPU) }); ok {
		g.Temperature = int(t)
	}
	if mw, ok := ask(d, "nvmlDeviceGetPowerUsage", h.GetPowerUsage); ok {
		g.PowerWatts = int(mw / 1000)
	}
	if mw, ok := ask(d, "nvmlDeviceGetEnforcedPowerLimit", h.GetEnforcedPowerLimit); ok {
		g.PowerLimit = int(mw / 1000)
	}
}

func (d *driver) ecc(g *GPU, h nvml.Device) {
	if !d.has("nvmlDeviceGetEccMode") {
		return
	}
	mode, _, ret := h.GetEccMode()
	if ret != nvml.SUCCESS {
		return
	}
	e := &ECC{Enabled: mode == nvml.FEATURE_ENABLED}
	g.ECC = e
	count := func(kind nvml.MemoryErrorType) uint64 {
		n, _ := ask(d, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) { return h.GetTotalEccErrors(kind, nvml.VOLATILE_ECC) })
		return n
	}
	e.Corrected, e.Uncorrected = count(nvml.MEMORY_ERROR_TYPE_CORRECTED), count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED)
	if d.has("nvmlDeviceGetRemappedRows") {
		if _, _, pending, failed, ret := h.GetRemappedRows(); ret == nvml.SUCCESS {
			e.PendingRepair, e.RepairFailed = pending, failed
		}
	}
	if pending, ok := ask(d, "nvmlDeviceGetRetiredPagesPendingStatus", h.GetRetiredPagesPendingStatus); ok && pending == nvml.FEATURE_ENABLED {
		e.PendingRepair = true
	}
}

// links is what ties a GPU to the rest of the machine.
func (d *driver) links(g *GPU, h nvml.Device) {
	g.PCIeWidth, _ = ask(d, "nvmlDeviceGetCurrPcieLinkWidth", h.GetCurrPcieLinkWidth)
	g.PCIeMaxWidth, _ = ask(d, "nvmlDeviceGetMaxPcieLinkWidth", h.GetMaxPcieLinkWidth)
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ok := ask(d, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) { return h.GetNvLinkState(i) })
		switch {
		case !ok: // no such link
		case state == nvml.FEATURE_ENABLED:
			g.NVLinks++
		default:
			g.NVLinksDown++
		}
	}
	if f, ok := ask(d, "nvmlDeviceGetGpuFabricInfo", h.GetGpuFabricInfo); ok {
		g.Fabric = map[uint8]string{
			nvml.GPU_FABRIC_STATE_NOT_STARTED: "not started", nvml.GPU_FABRIC_STATE_IN_PROGRESS: "in progress", nvml.GPU_FABRIC_STATE_COMPLETED: "completed",
		}[f.State]
		if f.State == nvml.GPU_FABRIC_STATE_COMPLETED && f.Status != 0 {
			g.Fabric = "failed"
		}
	}
}

// ways are the levels of nvmlDeviceGetTopologyCommonAncestor, as nvidia-smi
// abbreviates them.
var ways = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL: "PIX", nvml.TOPOLOGY_SINGLE: "PIX", nvml.TOPOLOGY_MULTIPLE: "PXB",
	nvml.TOPOLOGY_HOSTBRIDGE: "PHB", nvml.TOPOLOGY_NODE: "NODE", nvml.TOPOLOGY_SYSTEM: "SYS",
}

// link is how GPUs a and b reach each other.
func (d *driver) link(m *Machine, handles []nvml.Device, a, b int) (Link, bool) {
	ha, hb := handles[a], handles[b]
	if ha == nil || hb == nil {
		return Link{}, false
	}
	l := Link{A: a, B: b}
	ok := func(index nvml.GpuP2PCapsIndex) bool {
		s, asked := ask(d, "nvmlDeviceGetP2PStatus", func() (nvml.GpuP2PStatus, nvml.Return) { return ha.GetP2PStatus(hb, index) })
		return asked && s == nvml.P2P_STATUS_OK
	}
	l.P2P = ok(nvml.P2P_CAPS_INDEX_READ)
	if ok(nvml.P2P_CAPS_INDEX_NVLINK) {
		l.Kind = "NV" + strconv.Itoa(d.between(m.GPUs[a], m.GPUs[b], ha))
		return l, true
	}
	level, known := ask(d, "nvmlDeviceGetTopologyCommonAncestor", func() (nvml.GpuTopologyLevel, nvml.Return) { return ha.GetTopologyCommonAncestor(hb) })
	l.Kind = ways[level]
	return l, known && l.Kind != ""
}

// between counts the NVLinks from a that end at b, or at a switch, through
// which all of a's links reach b.
func (d *driver) between(a, b GPU, ha nvml.Device) int {
	direct, switched := 0, 0
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ok := ask(d, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) { return ha.GetNvLinkState(i) })
		if !ok || state != nvml.FEATURE_ENABLED {
			continue
		}
		kind, ok := ask(d, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) { return ha.GetNvLinkRemoteDeviceType(i) })
		if ok && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			switched++
			continue
		}
		if !d.any("nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2") {
			continue
		}
		if pci, ret := ha.GetNvLinkRemotePciInfo(i); ret == nvml.SUCCESS && pciName(text(pci.BusId[:])) == b.PCI {
			direct++
		}
	}
	if direct > 0 {
		return direct
	}
	if switched > 0 {
		return switched
	}
	return a.NVLinks
}

// text is a C string of fixed room.
func text[C int8 | uint8](chars []C) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// known is a number for which NVML has all ones when it cannot tell.
func known(n uint64) uint64 {
	if n == math.MaxUint64 {
		return 0
	}
	return n
}
