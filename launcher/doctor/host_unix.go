//go:build unix

package doctor

import (
	"os"

	"golang.org/x/sys/unix"
)

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func space(dir string) Space {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{Path: dir, Error: err.Error()}
	}
	block := uint64(st.Bsize)
	return Space{Path: dir, Total: st.Blocks * block, Free: uint64(st.Bavail) * block}
}

func memlock() *Limit {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil {
		return nil
	}
	return &Limit{uint64(r.Cur), uint64(r.Max)}
}

// writable says whether this user may make files in dir.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
