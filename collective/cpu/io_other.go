//go:build unix && !linux

package cpu

import "golang.org/x/sys/unix"

func writev(fd int, _ *[2]unix.Iovec, first, second []byte) (int, error) {
	return both(fd, unix.Write, first, second)
}

func readv(fd int, _ *[2]unix.Iovec, first, second []byte) (int, error) {
	return both(fd, unix.Read, first, second)
}

// both does first and then, if all of it went through, second. An error of the
// second call is left for the next time.
func both(fd int, do func(int, []byte) (int, error), first, second []byte) (int, error) {
	if len(first) == 0 {
		return do(fd, second)
	}
	n, err := do(fd, first)
	if err != nil || n < len(first) || len(second) == 0 {
		return max(n, 0), err
	}
	if m, err := do(fd, second); err == nil {
		n += m
	}
	return n, nil
}

func tune(int, string) {}
