package doctor

// Examine makes every check, in the order of a report: GPUs and what they
// need, then the host.
func Examine(f Facts) []Finding {
	var out []Finding
	for _, check := range []func(Facts) []Finding{
		checkDriver, checkVisible, checkGPUs, checkLinks, checkNUMA,
		checkWorker, checkNCCL, checkCUBLAS, checkCUDNN,
		checkInterfaces, checkSettings, checkClock,
		checkKernel, checkCPUs, checkMemory, checkBLAS, checkShm, checkMemlock, checkNoFile, checkDisk,
	} {
		out = append(out, check(f)...)
	}
	return out
}

// Quick makes the checks that are worth their time before each start of ranks
// on GPUs, and returns only what is wrong.
func Quick(f Facts, ranks int) []Finding {
	var out []Finding
	for _, d := range f.Visible.Devices {
		if d.GPU != nil {
			out = append(out, health(*d.GPU, len(f.Visible.Devices) > 1)...)
		}
	}
	out = append(out, checkSharing(f, ranks)...)
	out = append(out, checkSettings(f)...)
	if ranks > 1 {
		out = append(out, checkShm(f)...)
	}
	wrong := out[:0]
	seen := map[Finding]bool{}
	for _, one := range out {
		if (one.Status == Warn || one.Status == Fail) && !seen[one] {
			seen[one] = true // two MIG slices of one GPU
			wrong = append(wrong, one)
		}
	}
	return wrong
}
