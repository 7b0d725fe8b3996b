package cpu

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// card is what a rank publishes so that others find it: lines of text in the
// store.
type card struct {
	host  string // see hostID
	local string // its local socket; empty: none
}

const cardVersion = "ddprun-rank 1"

func (c card) String() string { return strings.Join([]string{cardVersion, c.host, c.local}, "\n") }

func parseCard(b []byte) (card, error) {
	f := strings.Split(string(b), "\n")
	if len(f) != 3 || f[0] != cardVersion {
		return card{}, fmt.Errorf("%.60q is not what a rank of this version publishes", b)
	}
	return card{host: f[1], local: f[2]}, nil
}

// near says that two ranks can use a local socket.
func (c card) near(d card) bool {
	return c.host != "" && c.host == d.host && c.local != "" && d.local != ""
}

// endpoints are the addresses at which a TCP listener may be reached, those
// likely to work first.
func endpoints(l net.Listener, hosts []string) ([]string, error) {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		if hosts, err = interfaceHosts(); err != nil {
			return nil, err
		}
	}
	list := make([]string, len(hosts))
	for i, h := range hosts {
		list[i] = net.JoinHostPort(h, port)
	}
	return list, nil
}

// interfaceHosts lists the addresses of the interfaces that are up: IPv4, then
// IPv6, and loopback last, for ranks of one machine that cannot see each
// other's local sockets.
func interfaceHosts() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var four, six, loop []string
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away between the two calls
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			switch {
			case !ok || n.IP.IsLinkLocalUnicast():
			case n.IP.IsLoopback():
				loop = append(loop, n.IP.String())
			case n.IP.To4() != nil:
				four = append(four, n.IP.String())
			default:
				six = append(six, n.IP.String())
			}
		}
	}
	hosts := slices.Concat(four, six, loop)
	if len(hosts) == 0 {
		return nil, errors.New("no interface with an address is up")
	}
	return hosts, nil
}

// hello is what a dialing rank says: who it is, whom it wants, in which group.
type hello struct {
	from, to, size int
	name           string
}

const maxName = 512

func (h hello) encode() []byte {
	return fmt.Appendf(nil, "%d %d %d %s", h.from, h.to, h.size, h.name)
}

func parseHello(b []byte) (hello, error) {
	f := strings.SplitN(string(b), " ", 4)
	if len(f) != 4 {
		return hello{}, fmt.Errorf("%.60q is no greeting of a rank", b)
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return hello{}, fmt.Errorf("%.60q is no greeting of a rank", b)
		}
		n[i] = v
	}
	return hello{n[0], n[1], n[2], f[3]}, nil
}
