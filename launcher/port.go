package launcher

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// reservation holds a TCP port for rank 0. Its socket is bound but does not
// listen, with SO_REUSEADDR set: the kernel gives the port to nobody who asks
// for "any", while a process that itself sets SO_REUSEADDR, as servers do
// (PyTorch's TCPStore and Go's net among them), may bind and listen on it.
type reservation struct {
	fd     int
	number int
}

// reserve takes the endpoint's port, or a free one if it is 0, on all
// addresses: rank 0 may listen on any of them.
func reserve(e Endpoint) (*reservation, error) {
	if err := owned(e.Addr); err != nil {
		return nil, err
	}
	fd, err := bindAll(e.Port)
	if err != nil {
		return nil, portError(e, err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return nil, portError(e, err)
	}
	r := &reservation{fd: fd}
	switch a := name.(type) {
	case *unix.SockaddrInet6:
		r.number = a.Port
	case *unix.SockaddrInet4:
		r.number = a.Port
	}
	return r, nil
}

// bindAll binds both families at once, or IPv4 alone where there is no IPv6.
func bindAll(port int) (int, error) {
	fd, err := reusable(unix.AF_INET6)
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0),
			unix.Bind(fd, &unix.SockaddrInet6{Port: port}))
		if err == nil {
			return fd, nil
		}
		unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES) {
			return -1, err
		}
	}
	fd, err = reusable(unix.AF_INET)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func reusable(family int) (int, error) {
	fd, err := cloexecSocket(family)
	if err != nil {
		return -1, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// owned refuses a numeric address that no interface of this machine has. Names
// are left to those who use them.
func owned(addr string) error {
	ip, err := netip.ParseAddr(addr)
	if err != nil || ip.IsLoopback() || ip.IsUnspecified() {
		return nil
	}
	l, err := net.ListenPacket("udp", net.JoinHostPort(addr, "0"))
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return exitcode.With(fmt.Errorf("master address %s: no interface of this machine has it (this machine has %s)", addr, addresses()), exitcode.Machine)
}

func addresses() string {
	list, err := net.InterfaceAddrs()
	if err != nil || len(list) == 0 {
		return "none"
	}
	text := ""
	for i, a := range list {
		if i > 0 {
			text += ", "
		}
		text += a.String()
	}
	return text
}

func portError(e Endpoint, err error) error {
	where := net.JoinHostPort(e.Addr, fmt.Sprint(e.Port))
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		who := ""
		if owner := portOwner(e.Port); owner != "" {
			who = " by " + owner
		}
		return exitcode.With(fmt.Errorf("master endpoint %s: port %d is in use%s; choose another, or leave the endpoint out to get a free one", where, e.Port, who), exitcode.Machine)
	case errors.Is(err, unix.EACCES):
		return exitcode.With(fmt.Errorf("master endpoint %s: not allowed to use port %d (ports below 1024 belong to root)", where, e.Port), exitcode.Machine)
	}
	return exitcode.With(fmt.Errorf("master endpoint %s: %w", where, err), exitcode.Machine)
}

func (r *reservation) release() error { return unix.Close(r.fd) }
