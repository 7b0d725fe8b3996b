package probe

// reasons are the bits of NVML's clock event reasons, in its order.
var reasons = []struct {
	bit   uint64
	text  string
	slows bool
}{
	{1, "idle", false},
	{2, "clocks set by an administrator", false},
	{4, "power limit", false}, // normal under full load
	{8, "hardware slowdown", true},
	{16, "synchronised with slower GPUs", false},
	{32, "temperature (driver)", true},
	{64, "temperature (hardware)", true},
	{128, "power brake of the machine", true},
	{256, "display clocks", false},
	{512, "board limit", false},
	{1024, "reliability voltage", false},
}

// throttleReasons is a mask of NVML in words.
func throttleReasons(mask uint64) []string {
	var out []string
	for _, r := range reasons {
		if mask&r.bit != 0 {
			out = append(out, r.text)
		}
	}
	return out
}

// Slows says whether a reason of GPU.Throttle means that the GPU is slower than
// it should be.
func Slows(reason string) bool {
	for _, r := range reasons {
		if r.text == reason {
			return r.slows
		}
	}
	return false
}
