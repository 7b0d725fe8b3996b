//go:build linux

package launcher

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/testkit"
)

func reserved(t *testing.T) *reservation {
	t.Helper()
	r, err := reserve(Endpoint{Addr: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.release() })
	return r
}

// The kernel must give a reserved port to nobody who asks for any port, for
// listening or for an outgoing connection.
func TestReservedPortIsGivenToNobody(t *testing.T) {
	r := reserved(t)
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().(*net.TCPAddr).Port == r.number {
			t.Fatal("the port was given away")
		}
		l.Close()
	}
	second := reserved(t)
	if second.number == r.number {
		t.Error("reserved twice")
	}
}

// Nobody listens on a reserved port, so a rank that comes too early is refused
// instead of being accepted by the launcher.
func TestReservedPortDoesNotAnswer(t *testing.T) {
	r := reserved(t)
	if c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.number), time.Second); err == nil {
		c.Close()
		t.Error("somebody answers")
	}
}

func TestGoServerMayListenOnAReservedPort(t *testing.T) {
	r := reserved(t)
	for _, addr := range []string{"127.0.0.1", "", "[::1]"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", addr, r.number))
		if err != nil {
			if addr == "[::1]" && !strings.Contains(err.Error(), "in use") {
				continue // no IPv6 here
			}
			t.Fatalf("%q: %v", addr, err)
		}
		l.Close()
	}
}

func TestPythonServerMayListenOnAReservedPort(t *testing.T) {
	python := python3(t)
	r := reserved(t)
	for _, family := range []string{"AF_INET", "AF_INET6"} {
		script := fmt.Sprintf(`
import socket
s = socket.socket(socket.%s, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", %d)); s.listen()
c = socket.create_connection(("127.0.0.1" if "%s" == "AF_INET" else "::1", %d), 5)
a, _ = s.accept(); c.sendall(b"x"); print(a.recv(1))`, family, r.number, family, r.number)
		out, err := exec.Command(python, "-c", script).CombinedOutput()
		if strings.Contains(string(out), "Address family not supported") || strings.Contains(string(out), "Cannot assign") {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", family, err, out)
		}
	}
}

// PyTorch's own store, when it is installed: rank 0 serves on the reserved
// port and the others find it.
func TestTorchMeetsOnAReservedPort(t *testing.T) {
	if testing.Short() {
		t.Skip("starting torch takes seconds")
	}
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import torch.distributed").Run() != nil {
		t.Skip("no torch")
	}
	b := newBench(t, 2, "")
	b.cfg.Command.Args = []string{python, "-u", "-c", `
import torch, torch.distributed as d
d.init_process_group("gloo")
x = torch.ones(3) * (d.get_rank() + 1)
d.all_reduce(x)
assert d.is_torchelastic_launched() if hasattr(d, "is_torchelastic_launched") else True
print("sum", x.tolist())`}
	v := b.run()
	if v.Code != 0 || strings.Count(b.stdout(), "sum [3.0, 3.0, 3.0]") != 2 {
		t.Errorf("code %d\n%s\n%s", v.Code, b.stdout(), b.stderr())
	}
}

func python3(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	return path
}

func TestPortInUseNamesItsOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	start := time.Now()
	_, err = reserve(Endpoint{Addr: "127.0.0.1", Port: port})
	if exitcode.Of(err) != exitcode.Machine || time.Since(start) > testkit.Scale(5*time.Second) {
		t.Fatalf("after %v: %v", time.Since(start), err)
	}
	wantText(t, err.Error(), fmt.Sprintf("127.0.0.1:%d", port), "in use by pid", "choose another")
}

func TestGivenPortIsFreeAgainAtOnce(t *testing.T) {
	first, err := reserve(Endpoint{Addr: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	port := first.number
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r, err := reserve(Endpoint{Addr: "127.0.0.1", Port: port})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		s.Close() // the server's side closes first: TIME_WAIT stays on the port
		c.Close()
		l.Close()
		if err := r.release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAddressOfAnotherMachineIsRefused(t *testing.T) {
	_, err := reserve(Endpoint{Addr: "192.0.2.10", Port: 0})
	if exitcode.Of(err) != exitcode.Machine {
		t.Fatal(err)
	}
	wantText(t, err.Error(), "192.0.2.10", "127.0.0.1")
}
