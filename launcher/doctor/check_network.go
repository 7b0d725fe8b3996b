package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

func checkInterfaces(f Facts) []Finding {
	const check = "network"
	have := interfaceTexts(f.Host.Interfaces)
	if !f.hasGPUs() {
		return []Finding{skip(check, "%s, so no NCCL; the interfaces are %s", f.noGPU(), have)}
	}
	chosen, why := chooseInterfaces(f.Host.Interfaces, f.Host.setting)
	if len(chosen) == 0 {
		return []Finding{fail(check, "correct NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY, or unset them", "NCCL would find no interface (%s); there are %s", why, have)}
	}
	text := fmt.Sprintf("NCCL would choose %s (%s)", interfaceTexts(chosen), why)
	if disabled := f.Host.setting("NCCL_IB_DISABLE"); len(f.Host.RDMA) > 0 && (disabled == "" || disabled == "0") {
		text += "; between nodes, data goes through " + strings.Join(f.Host.RDMA, ", ") + " where libibverbs is installed"
	}
	return []Finding{pass(check, "%s", text)}
}

func interfaceTexts(ifs []Interface) string {
	var out []string
	for _, i := range ifs {
		out = append(out, strings.TrimSpace(i.Name+" "+strings.Join(i.Addresses, " ")))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// setting is the value of an NCCL variable, "" if it is not set.
func (h Host) setting(name string) string {
	for _, s := range h.NCCL {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// chooseInterfaces makes NCCL's choice of interfaces for its sockets, which also
// carry the first contact of all other transports (ncclFindInterfaces in NCCL's
// socket.cc): those that NCCL_SOCKET_IFNAME names; else those whose name begins
// with "ib"; else the one in the subnet of NCCL_COMM_ID; else all but docker,
// lo and virbr; else those, in this order.
func chooseInterfaces(ifs []Interface, setting func(string) string) ([]Interface, string) {
	ifs = ofFamily(ifs, setting("NCCL_SOCKET_FAMILY"))
	if spec := setting("NCCL_SOCKET_IFNAME"); len(spec) > 1 {
		return matching(ifs, spec), "NCCL_SOCKET_IFNAME=" + spec
	}
	if found := matching(ifs, "ib"); len(found) > 0 {
		return found, "names that begin with ib come first"
	}
	if id := setting("NCCL_COMM_ID"); len(id) > 1 {
		if found := nearest(ifs, id); len(found) > 0 {
			return found, "the subnet of NCCL_COMM_ID=" + id
		}
	}
	if found := matching(ifs, "^docker,lo,virbr"); len(found) > 0 {
		return found, "all but docker, lo and virbr"
	}
	for _, last := range []string{"docker", "lo", "virbr"} {
		if found := matching(ifs, last); len(found) > 0 {
			return found, "there is nothing but " + last
		}
	}
	return nil, "no interface that is up has an address"
}

// matching reads NCCL's lists: names by their beginning; after "=" whole names;
// after "^" all others.
func matching(ifs []Interface, spec string) []Interface {
	not := strings.HasPrefix(spec, "^")
	spec = strings.TrimPrefix(spec, "^")
	exact := strings.HasPrefix(spec, "=")
	spec = strings.TrimPrefix(spec, "=")
	var out []Interface
	for _, i := range ifs {
		hit := false
		for name := range strings.SplitSeq(spec, ",") {
			name, _, _ = strings.Cut(name, ":") // a port may follow
			hit = hit || i.Name == name || !exact && name != "" && strings.HasPrefix(i.Name, name)
		}
		if hit != not {
			out = append(out, i)
		}
	}
	return out
}

// ofFamily keeps what has an address that NCCL uses: of the family that is
// asked for, and not the loopback address of IPv6.
func ofFamily(ifs []Interface, family string) []Interface {
	var out []Interface
	for _, i := range ifs {
		for _, text := range i.Addresses {
			p, err := netip.ParsePrefix(text)
			a := p.Addr()
			if err != nil || a.Is6() && a.IsLoopback() || family == "AF_INET" && !a.Is4() || family == "AF_INET6" && !a.Is6() {
				continue
			}
			out = append(out, Interface{i.Name, []string{text}}) // NCCL takes the first
			break
		}
	}
	return out
}

// nearest finds the interface in whose subnet NCCL_COMM_ID's address is.
func nearest(ifs []Interface, id string) []Interface {
	at, err := netip.ParseAddrPort(id)
	if err != nil {
		return nil // a host name
	}
	for _, i := range ifs {
		if p, err := netip.ParsePrefix(i.Addresses[0]); err == nil && p.Masked().Contains(at.Addr()) {
			return []Interface{i}
		}
	}
	return nil
}
