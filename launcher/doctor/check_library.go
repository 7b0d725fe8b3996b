package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ddprun/ddprun/launcher/doctor/probe"
)

// oldestDriver is the oldest Linux driver that serves a major version of CUDA
// (CUDA Compatibility, "minor version compatibility"): a program built for any
// 12.x runs on a driver of 12.0 or later.
var oldestDriver = map[int]string{11: "450.80.02", 12: "525.60.13", 13: "580"}

// fits says whether the driver serves a library that was built for cuda; if
// not, why.
func fits(m probe.Machine, cuda int) (bool, string) {
	major := cuda / 1000
	least, known := oldestDriver[major]
	ok := true
	switch {
	case major == 0:
		return true, ""
	case m.CUDA > 0: // also right with a compatibility package in place of libcuda
		ok = m.CUDA/1000 >= major
	case known:
		ok = !older(m.Driver, least)
	}
	if ok {
		return true, ""
	}
	why := fmt.Sprintf("built for CUDA %s, which driver %s does not serve", cudaText(cuda), m.Driver)
	if known {
		why += " (it needs " + least + " or later)"
	}
	return false, why
}

// older compares versions of numbers and points.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := part(as, i), part(bs, i)
		if x != y {
			return x < y
		}
	}
	return false
}

func part(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i]) // what is no number counts as 0
	return n
}

// cudaText is 12040 as 12.4.
func cudaText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func (f Facts) libraries(name string) []probe.Library {
	var out []probe.Library
	for _, l := range f.Libraries {
		if l.Name == name && l.Path != "" {
			out = append(out, l)
		}
	}
	return out
}

func checkWorker(f Facts) []Finding {
	const check = "worker"
	switch {
	case f.Worker != "":
		return []Finding{pass(check, "%s trains on GPUs", f.Worker)}
	case !f.hasGPUs():
		return []Finding{skip(check, "ddpworker is not needed: %s", f.noGPU())}
	}
	return []Finding{warn(check, "programs such as PyTorch scripts do not need it; device: cpu trains on the processor", "jobs with device: cuda cannot run: %s", f.WorkerError)}
}

// checkLibrary is what the checks of GPU libraries have in common. missing is
// the finding when there is none.
func checkLibrary(f Facts, check, name string, missing Finding) []Finding {
	if !f.hasGPUs() {
		return []Finding{skip(check, "%s", f.noGPU())}
	}
	if f.LibrariesError != "" {
		return []Finding{warn(check, "the library that crashes may be a damaged one: look at LD_LIBRARY_PATH", "not examined: %s", f.LibrariesError)}
	}
	found := f.libraries(name)
	if len(found) == 0 {
		return []Finding{missing}
	}
	var good, bad []string
	for _, l := range found {
		text := edition(l)
		if ok, why := fits(f.Machine, l.CUDA); !ok {
			bad = append(bad, text+": "+why)
			continue
		}
		good = append(good, text)
	}
	switch {
	case len(good) == 0:
		return []Finding{{check, missing.Status, name + " " + strings.Join(bad, "; "), "update the driver, or install " + name + " for CUDA " + strconv.Itoa(f.Machine.CUDA/1000)}}
	case len(bad) > 0:
		return []Finding{pass(check, "%s %s; not usable: %s", name, strings.Join(good, ", "), strings.Join(bad, "; "))}
	}
	return []Finding{pass(check, "%s %s", name, strings.Join(good, ", "))}
}

// edition is which of its kind a library is.
func edition(l probe.Library) string {
	text := "(" + l.Path + ")"
	if l.CUDA > 0 {
		text = "for CUDA " + cudaText(l.CUDA) + " " + text
	}
	if l.Version != "" {
		text = l.Version + " " + text
	}
	return text
}

// needed is Fail for a library without which our own worker cannot do what this
// machine is for, else Warn.
func (f Facts) needed(always bool) Status {
	if f.Worker != "" && (always || len(f.Visible.Devices) > 1) {
		return Fail
	}
	return Warn
}

func checkNCCL(f Facts) []Finding {
	missing := Finding{"nccl", f.needed(false), "no usable NCCL found, which carries gradients between GPUs", "pip install nvidia-nccl-cu12 (or -cu13), install the package libnccl2, or set DDPRUN_NCCL to its path"}
	return checkLibrary(f, "nccl", "NCCL", missing)
}

func checkCUBLAS(f Facts) []Finding {
	missing := Finding{"cublas", f.needed(true), "no cuBLASLt found, which multiplies matrices on GPUs", "pip install nvidia-cublas-cu12 (or nvidia-cublas for CUDA 13), install CUDA's package libcublas, or set DDPRUN_CUBLASLT to its path"}
	return checkLibrary(f, "cublas", "cuBLAS", missing)
}

func checkCUDNN(f Facts) []Finding {
	return checkLibrary(f, "cudnn", "cuDNN", skip("cudnn", "no cuDNN found; only programs that use it need it"))
}

func checkBLAS(f Facts) []Finding {
	const check = "openblas"
	if found := f.libraries("OpenBLAS"); len(found) > 0 {
		return []Finding{pass(check, "OpenBLAS %s", edition(found[0]))}
	}
	why := "not found"
	if f.LibrariesError != "" {
		why = "not examined: " + f.LibrariesError
	}
	if f.Host.AVX2 {
		return []Finding{pass(check, "%s; ddprun's own AVX2 kernel multiplies matrices as fast", why)}
	}
	return []Finding{warn(check, "install libopenblas0-pthread", "%s, and this processor has no AVX2: training on it is several times slower", why)}
}
