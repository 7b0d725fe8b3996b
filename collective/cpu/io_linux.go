package cpu

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writev and readv go to the kernel without telling the scheduler: the sockets
// are non-blocking, and a call is over before another thread could take over.
// iov is scratch memory of the caller's that outlives the call.

func writev(fd int, iov *[2]unix.Iovec, first, second []byte) (int, error) {
	return vector(unix.SYS_WRITEV, fd, iov, first, second)
}

func readv(fd int, iov *[2]unix.Iovec, first, second []byte) (int, error) {
	return vector(unix.SYS_READV, fd, iov, first, second)
}

func vector(trap uintptr, fd int, iov *[2]unix.Iovec, first, second []byte) (int, error) {
	count := 0
	for _, b := range [2][]byte{first, second} {
		if len(b) > 0 {
			iov[count].Base = unsafe.SliceData(b)
			iov[count].SetLen(len(b))
			count++
		}
	}
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(iov)), uintptr(count))
	iov[0].Base, iov[1].Base = nil, nil
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// tune sets what makes a connection faster or its loss known sooner; it works
// without.
func tune(fd int, network string) {
	if network == "unix" {
		// Room for a few segments halves the number of wake-ups. The kernel
		// caps it; memory is taken only for bytes under way.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4*maxSegment)
		return
	}
	// Keep-alive does not watch a connection with bytes under way; this does.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
}

const userTimeout = 30 * time.Second
