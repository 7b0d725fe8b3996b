package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// nvidiaHardware lists the PCI addresses of NVIDIA's display and 3D controllers
// below root (empty: the machine's). It needs no driver.
func nvidiaHardware(root string) []string {
	dirs, _ := filepath.Glob(filepath.Join(root, "/sys/bus/pci/devices/*")) // the only error is a bad pattern
	var found []string
	for _, dir := range dirs {
		if firstWord(filepath.Join(dir, "vendor")) == "0x10de" && strings.HasPrefix(firstWord(filepath.Join(dir, "class")), "0x03") {
			found = append(found, filepath.Base(dir))
		}
	}
	return found
}

// locate adds what the kernel knows of a GPU's place.
func (g *GPU) locate(root string) {
	if g.PCI == "" {
		return
	}
	dir := filepath.Join(root, "/sys/bus/pci/devices", g.PCI)
	// -1: the firmware does not say.
	if n, err := strconv.Atoi(firstWord(filepath.Join(dir, "numa_node"))); err == nil && n >= 0 {
		g.NUMA = &n
	}
	g.CPUs = firstWord(filepath.Join(dir, "local_cpulist"))
}

func firstWord(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	word, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return word
}

// pciName brings NVML's 00000000:3B:00.0 into the kernel's form, 0000:3b:00.0.
func pciName(busID string) string {
	name := strings.ToLower(busID)
	if domain, rest, ok := strings.Cut(name, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		name = domain[4:] + ":" + rest
	}
	return name
}

func processName(pid int) string {
	return firstWord(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
}

// noDriver says what it means that there is no driver to ask: nothing, on a
// machine without NVIDIA hardware.
func noDriver(m Machine, what string, hardware []string) Machine {
	if len(hardware) == 0 {
		m.Absent = what
		return m
	}
	m.Fault = &Fault{
		Text:   what + ", but this machine has NVIDIA hardware at PCI " + strings.Join(hardware, ", "),
		Remedy: "install the NVIDIA driver; in a container, pass the devices and the driver in (--gpus all)",
	}
	return m
}

// DriverLoaded says, at the price of two looks into the file system, whether an
// NVIDIA driver is loaded here.
func DriverLoaded() bool {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		return true
	}
	// Where /proc does not show the driver, the GPUs' own files tell; that of the
	// driver's control (nvidiactl) may be left from a driver that is gone.
	gpus, err := filepath.Glob("/dev/nvidia[0-9]*")
	return err == nil && len(gpus) > 0
}
