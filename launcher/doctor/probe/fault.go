package probe

import "fmt"

// Codes of NVML (nvmlReturn_t) with a remedy of their own.
const (
	nvmlNoPermission    = 4
	nvmlDriverNotLoaded = 9
	nvmlGPULost         = 15
	nvmlResetRequired   = 16
	nvmlMismatch        = 18
)

const remedyLoad = "load the kernel module (modprobe nvidia) and look at dmesg; in a container, pass the devices in (--gpus all)"

// driverFault is a call of NVML that failed.
func driverFault(call string, code int, text string) *Fault {
	remedy := "run nvidia-smi and look at dmesg for lines with NVRM or Xid; a reboot resets the driver"
	switch code {
	case nvmlNoPermission:
		remedy = "this user may not open /dev/nvidia*: look at its permissions and groups"
	case nvmlDriverNotLoaded:
		remedy = remedyLoad
	case nvmlGPULost:
		remedy = "a GPU has fallen off the bus: look at dmesg for Xid 79, then reboot; if it comes back, have the card looked at"
	case nvmlResetRequired:
		remedy = "reset the GPU (nvidia-smi --gpu-reset) or reboot"
	case nvmlMismatch:
		remedy = "the driver was updated under the running system: reload the kernel module (stop what uses the GPUs; rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia) or reboot"
	}
	return &Fault{Text: fmt.Sprintf("%s gave error %d (%s)", call, code, text), Remedy: remedy}
}
