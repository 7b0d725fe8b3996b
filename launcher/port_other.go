//go:build unix && !linux

package launcher

import "golang.org/x/sys/unix"

func cloexecSocket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

func portOwner(int) string { return "" }
