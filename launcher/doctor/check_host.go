package doctor

import (
	"fmt"
	"maps"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n == Unlimited:
		return "unlimited"
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}

func number(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

func checkClock(Facts) []Finding {
	return []Finding{skip("clock", "one node: there is no other clock to compare with")}
}

// oldKernel is where PyTorch's tools begin to warn of hangs.
const oldKernel = "5.5"

func checkKernel(f Facts) []Finding {
	const check = "kernel"
	switch {
	case f.Host.OS != "linux":
		return []Finding{warn(check, "use Linux for anything but trying out", "%s: processes are not cleared away as thoroughly as on Linux, and there is no NCCL", f.Host.OS)}
	case f.Host.Kernel == "":
		return []Finding{skip(check, "the system does not tell its version")}
	case older(f.Host.Kernel, oldKernel):
		return []Finding{warn(check, "update to Linux "+oldKernel+" or later", "Linux %s; hangs of training jobs are known before %s", f.Host.Kernel, oldKernel)}
	}
	return []Finding{pass(check, "Linux %s", f.Host.Kernel)}
}

func checkCPUs(f Facts) []Finding {
	const check = "cpu"
	vector := map[bool]string{true: " with AVX2", false: " without AVX2"}[f.Host.AVX2]
	if q := f.Host.CPUQuota; q > 0 && q < float64(f.Host.CPUs) {
		return []Finding{warn(check, fmt.Sprintf("give --nproc-per-node=%d, or raise the limit of the container", max(1, int(q))), "%d processors%s are seen, but the control group allows the time of %.3g: --nproc-per-node=cpu would start too many ranks", f.Host.CPUs, vector, q)}
	}
	return []Finding{pass(check, "%d processors%s", f.Host.CPUs, vector)}
}

func checkMemory(f Facts) []Finding {
	const check = "memory"
	h := f.Host
	if h.Memory == 0 {
		return []Finding{skip(check, "the system does not tell")}
	}
	text := fmt.Sprintf("%s of %s available", size(h.MemoryFree), size(h.Memory))
	if h.MemoryLimit > 0 && h.MemoryLimit < h.Memory {
		text += fmt.Sprintf(", and the control group allows %s", size(h.MemoryLimit))
	}
	if h.MemoryFree < 1<<30 {
		return []Finding{warn(check, "end what takes the memory: the kernel kills ranks when it runs out", "%s", text)}
	}
	return []Finding{pass(check, "%s", text)}
}

// smallShm is what containers have unless they are told otherwise.
const smallShm = 64 << 20

func checkShm(f Facts) []Finding {
	const check = "shm"
	const remedy = "docker: --shm-size=1g or --ipc=host; Kubernetes: an emptyDir with medium Memory at /dev/shm"
	s := f.Host.Shm
	switch {
	case s == nil && f.Host.OS != "linux":
		return []Finding{skip(check, "no /dev/shm on this system")}
	case s == nil:
		return []Finding{warn(check, remedy, "there is no /dev/shm: NCCL between processes and PyTorch's data loaders need it")}
	case s.Error != "":
		return []Finding{warn(check, remedy, "/dev/shm: %s", s.Error)}
	case s.Total <= smallShm:
		return []Finding{warn(check, remedy, "/dev/shm has %s in all: NCCL needs about 10 MiB for each pair of ranks, PyTorch's data loaders need more", size(s.Total))}
	case s.Free <= smallShm:
		return []Finding{warn(check, "look for files that dead programs have left in /dev/shm", "/dev/shm has only %s of %s free", size(s.Free), size(s.Total))}
	}
	return []Finding{pass(check, "/dev/shm has %s of %s free", size(s.Free), size(s.Total))}
}

func checkMemlock(f Facts) []Finding {
	const check = "memlock"
	l := f.Host.Memlock
	switch {
	case l == nil:
		return []Finding{skip(check, "the system does not tell")}
	case len(f.Host.RDMA) == 0:
		return []Finding{pass(check, "limit on locked memory: %s; no InfiniBand or RoCE device that would need more", size(l.Soft))}
	case l.Soft != Unlimited:
		return []Finding{warn(check, "ulimit -l unlimited (memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity under systemd, --ulimit memlock=-1 in docker)", "the limit on locked memory is %s, and InfiniBand or RoCE needs it unlimited: NCCL fails with \"cannot allocate memory\"", size(l.Soft))}
	}
	return []Finding{pass(check, "unlimited")}
}

// fewFiles is too few for a rank with connections to many others and data
// loaders.
const fewFiles = 1024

func checkNoFile(f Facts) []Finding {
	const check = "nofile"
	l := f.Host.NoFile
	switch {
	case l == nil:
		return []Finding{skip(check, "the system does not tell")}
	case l.Soft < fewFiles || l.Hard < 4*fewFiles:
		return []Finding{warn(check, "ulimit -n 65536 (nofile in /etc/security/limits.conf, LimitNOFILE= under systemd)", "a rank may open %s files, at most %s: large jobs and data loaders need more", number(l.Soft), number(l.Hard))}
	}
	return []Finding{pass(check, "a rank may open %s files, up to %s if it asks", number(l.Soft), number(l.Hard))}
}

func checkDisk(f Facts) []Finding {
	const check = "disk"
	const low, tiny = 5 << 30, 100 << 20
	s := f.Host.RunDir
	const remedy = "make room, or put run directories elsewhere with --log-dir"
	switch {
	case s.Error != "":
		return []Finding{fail(check, "choose another folder with --log-dir", "run directories would lie in %s: %s", s.Path, s.Error)}
	case s.Total == 0:
		return []Finding{skip(check, "the system does not tell")}
	case s.Free < tiny:
		return []Finding{fail(check, remedy, "%s free for run directories in %s", size(s.Free), s.Path)}
	case s.Free < low:
		return []Finding{warn(check, remedy, "%s free for run directories in %s: a few checkpoints fill that", size(s.Free), s.Path)}
	}
	return []Finding{pass(check, "%s free for run directories in %s", size(s.Free), s.Path)}
}
