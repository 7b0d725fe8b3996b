//go:build unix

package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size and alignment of a huge page on the machines we know.
const hugePage = 2 << 20

// systemMemory maps at least bytes of zeroed private memory, aligned to a huge
// page, and returns it with the function that unmaps it.
func systemMemory(bytes int) ([]float32, func() error, error) {
	bytes = (bytes + hugePage - 1) &^ (hugePage - 1)
	raw, err := unix.Mmap(-1, 0, bytes+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (hugePage - 1))
	mem := raw[skip : skip+bytes]
	adviseHuge(mem)
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), bytes/4), func() error { return unix.Munmap(raw) }, nil
}
