package doctor

import (
	"fmt"
	"strings"
)

// setting is what a variable of NCCL does, and when it is worth a warning.
type setting struct {
	does  string
	doubt func(value string, f Facts) string // empty: none; nil: never any
	// remedy goes with a doubt; empty: unset it.
	remedy string
}

// settings are the variables that matter in practice (NCCL's documentation,
// "Environment Variables").
var settings = map[string]setting{
	"NCCL_DEBUG":                {"how much NCCL prints: VERSION, WARN, INFO or TRACE", tracing, "use INFO or WARN"},
	"NCCL_DEBUG_SUBSYS":         {"what NCCL_DEBUG=INFO prints about: INIT,NET,COLL,...", nil, ""},
	"NCCL_DEBUG_FILE":           {"the file for NCCL's messages; %h is the host and %p the process", oneFile, "put %p or %h into the name"},
	"NCCL_SOCKET_IFNAME":        {"the network interfaces for sockets: beginnings of names, ^ for all others, = for whole names", noInterface, "name one of the interfaces, or unset it"},
	"NCCL_SOCKET_FAMILY":        {"AF_INET or AF_INET6: the addresses that sockets use", family, "use AF_INET or AF_INET6, or unset it"},
	"NCCL_COMM_ID":              {"host:port where ranks meet; a launcher gives each job its own", always("all jobs with it meet at the same place"), ""},
	"NCCL_SOCKET_NTHREADS":      {"threads for each connection over sockets", nil, ""},
	"NCCL_NSOCKS_PERTHREAD":     {"sockets for each of these threads", nil, ""},
	"NCCL_NET":                  {"which network plugin is used: Socket, IB or a plugin's name", nil, ""},
	"NCCL_NET_PLUGIN":           {"which libnccl-net is opened; none for none", nil, ""},
	"NCCL_NET_GDR_LEVEL":        {"how far network card and GPU may be apart for direct transfers", nil, ""},
	"NCCL_IB_DISABLE":           {"1: no InfiniBand or RoCE, sockets instead", rdmaUnused, ""},
	"NCCL_IB_HCA":               {"which InfiniBand or RoCE devices are used", noHCA, "name one of the devices, or unset it"},
	"NCCL_IB_GID_INDEX":         {"which address of a RoCE device is used; show_gids lists them", nil, ""},
	"NCCL_IB_TIMEOUT":           {"how long InfiniBand waits for an answer: 4.096 us times 2 to the power of this", nil, ""},
	"NCCL_IB_RETRY_CNT":         {"how often InfiniBand sends again", nil, ""},
	"NCCL_IB_TC":                {"traffic class of InfiniBand or RoCE packets", nil, ""},
	"NCCL_P2P_DISABLE":          {"1: GPUs do not read each other's memory directly", on("GPUs exchange gradients through host memory, many times slower than NVLink"), ""},
	"NCCL_P2P_LEVEL":            {"how far GPUs may be apart to read each other's memory: LOC, NVL, PIX, PXB, PHB, SYS", nil, ""},
	"NCCL_SHM_DISABLE":          {"1: no shared memory between the ranks of a node", on("ranks of one node talk through the network where they could use memory"), ""},
	"NCCL_CUMEM_ENABLE":         {"whether NCCL allocates through CUDA's virtual memory calls", nil, ""},
	"NCCL_NVLS_ENABLE":          {"whether NVLink switches do sums (NVLS)", nil, ""},
	"NCCL_ALGO":                 {"which algorithms are allowed, as Ring,Tree; NCCL knows better in most cases", fixed, ""},
	"NCCL_PROTO":                {"which protocols are allowed: LL, LL128, Simple; forcing LL128 on unfit hardware corrupts data", fixed, ""},
	"NCCL_MIN_NCHANNELS":        {"least number of channels, each a block of threads on the GPU", nil, ""},
	"NCCL_MAX_NCHANNELS":        {"largest number of channels; few leave more of the GPU to the model", nil, ""},
	"NCCL_MIN_CTAS":             {"least number of blocks of threads of a collective", nil, ""},
	"NCCL_MAX_CTAS":             {"largest number of blocks of threads of a collective", nil, ""},
	"NCCL_BUFFSIZE":             {"bytes of buffer between a pair of GPUs (4 MiB)", nil, ""},
	"NCCL_NTHREADS":             {"threads of a block", nil, ""},
	"NCCL_CROSS_NIC":            {"whether a ring may use different network cards on the way", nil, ""},
	"NCCL_TOPO_FILE":            {"an XML file that describes the machine, as virtual machines of clouds need it", nil, ""},
	"NCCL_TOPO_DUMP_FILE":       {"where NCCL writes the machine as it sees it", nil, ""},
	"NCCL_GRAPH_DUMP_FILE":      {"where NCCL writes the rings and trees that it has chosen", nil, ""},
	"NCCL_LAUNCH_MODE":          {"how kernels of several GPUs of one process are started", nil, ""},
	"NCCL_IGNORE_CPU_AFFINITY":  {"1: NCCL's threads go where the GPU is near, whatever the process is bound to", nil, ""},
	"NCCL_HOSTID":               {"what counts as one host; different values make NCCL use the network between ranks of a machine", hostID, ""},
	"NCCL_VERSION":              {"a label of container images; NCCL does not read it", nil, ""},
	"NCCL_RAS_ENABLE":           {"whether NCCL's own watch over ranks runs", nil, ""},
	"NCCL_RAS_ADDR":             {"where that watch answers", nil, ""},
	"NCCL_CHECKS_DISABLE":       {"1: arguments are not checked", nil, ""},
	"NCCL_CHECK_POINTERS":       {"1: pointers are checked in each call, which is slow", on("every call checks its pointers, which is slow"), ""},
	"NCCL_ASYNC_ERROR_HANDLING": {"PyTorch's, under its old name", always("newer PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING"), "use the new name"},
	"NCCL_BLOCKING_WAIT":        {"PyTorch's, under its old name", always("newer PyTorch reads TORCH_NCCL_BLOCKING_WAIT"), "use the new name"},
	"NCCL_CONF_FILE":            {"a file with more settings", nil, ""},
	"NCCL_TUNER_PLUGIN":         {"which library chooses algorithms", nil, ""},
	"NCCL_PROFILER_PLUGIN":      {"which library records what NCCL does", nil, ""},
	"NCCL_PXN_DISABLE":          {"1: no network card is reached through another GPU", nil, ""},
	"NCCL_MNNVL_ENABLE":         {"whether NVLink between nodes is used", nil, ""},
	"NCCL_WORK_FIFO_DEPTH":      {"how much work may wait on the GPU", nil, ""},
	"NCCL_DMABUF_ENABLE":        {"whether network cards reach GPU memory through dma-buf", nil, ""},
	"NCCL_LOCAL_REGISTER":       {"whether buffers that a program registers are used without copying", nil, ""},
	"NCCL_GRAPH_REGISTER":       {"whether buffers in CUDA graphs are used without copying", nil, ""},
	"NCCL_OOB_NET_ENABLE":       {"whether first contact goes through the network plugin", nil, ""},
	"NCCL_OOB_NET_IFNAME":       {"the interface of that first contact", nil, ""},
}

func always(doubt string) func(string, Facts) string {
	return func(string, Facts) string { return doubt }
}

func on(doubt string) func(string, Facts) string {
	return func(value string, _ Facts) string {
		if value == "" || value == "0" {
			return ""
		}
		return doubt
	}
}

func tracing(value string, _ Facts) string {
	if strings.EqualFold(value, "TRACE") {
		return "a line for every call slows a run down and fills its logs"
	}
	return ""
}

func oneFile(value string, _ Facts) string {
	if strings.Contains(value, "%p") || strings.Contains(value, "%h") {
		return ""
	}
	return "all ranks write into the same file"
}

func noInterface(value string, f Facts) string {
	if len(value) < 2 || len(matching(ofFamily(f.Host.Interfaces, f.Host.setting("NCCL_SOCKET_FAMILY")), value)) > 0 {
		return ""
	}
	return "no interface that is up matches it; there are " + interfaceTexts(f.Host.Interfaces)
}

func family(value string, _ Facts) string {
	if value == "AF_INET" || value == "AF_INET6" {
		return ""
	}
	return "NCCL does not know this value and ignores it"
}

func rdmaUnused(value string, f Facts) string {
	if value == "" || value == "0" || len(f.Host.RDMA) == 0 {
		return ""
	}
	return "this machine has " + strings.Join(f.Host.RDMA, ", ") + ", which are much faster than sockets"
}

func noHCA(value string, f Facts) string {
	if strings.HasPrefix(value, "^") {
		return ""
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(value, "="), ",") {
		name, _, _ = strings.Cut(name, ":")
		for _, d := range f.Host.RDMA {
			if name != "" && strings.HasPrefix(d, name) {
				return ""
			}
		}
	}
	return "no InfiniBand or RoCE device here has such a name"
}

func fixed(string, Facts) string {
	return "NCCL's own choice depends on size and machine, and a fixed one is seldom faster"
}

func hostID(value string, _ Facts) string {
	if value == "" {
		return ""
	}
	return "ranks of this machine with other values do not use NVLink or shared memory between them"
}

func checkSettings(f Facts) []Finding {
	const check = "settings"
	if len(f.Host.NCCL) == 0 {
		return []Finding{pass(check, "no NCCL_ variable is set")}
	}
	var out []Finding
	for _, s := range f.Host.NCCL {
		what := fmt.Sprintf("%s=%s (%s)", s.Name, s.Value, s.From)
		known, ok := settings[s.Name]
		if !ok {
			out = append(out, warn(check, "look it up in NCCL's documentation; NCCL ignores names that it does not know", "%s is not among the variables that the doctor knows", what))
			continue
		}
		doubt := ""
		if known.doubt != nil {
			doubt = known.doubt(s.Value, f)
		}
		if doubt == "" {
			out = append(out, pass(check, "%s: %s", what, known.does))
			continue
		}
		remedy := known.remedy
		if remedy == "" {
			remedy = "unset it unless you know why it is there"
		}
		out = append(out, warn(check, remedy, "%s: %s; %s", what, known.does, doubt))
	}
	return out
}
