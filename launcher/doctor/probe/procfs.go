package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// readProc is what the kernel driver tells without its library.
func readProc(root string) Machine {
	const dir = "/proc/driver/nvidia"
	m := Machine{Source: dir}
	version, err := os.ReadFile(filepath.Join(root, dir, "version"))
	if err != nil {
		return noDriver(m, "no driver is loaded", nvidiaHardware(root))
	}
	// NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ...
	m.Driver = regexp.MustCompile(`\b\d{3,4}\.\d+(\.\d+)?\b`).FindString(string(version))
	dirs, _ := filepath.Glob(filepath.Join(root, dir, "gpus/*/information")) // the only error is a bad pattern
	slices.Sort(dirs)                                                        // by PCI address, as NVML numbers them
	for i, file := range dirs {
		g := GPU{Index: i, PCI: strings.ToLower(filepath.Base(filepath.Dir(file)))}
		text, err := os.ReadFile(file)
		if err != nil {
			g.Fault = err.Error()
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "Model":
				g.Name = value
			case "GPU UUID":
				g.UUID = value
			}
		}
		g.locate(root)
		m.GPUs = append(m.GPUs, g)
	}
	return m
}
