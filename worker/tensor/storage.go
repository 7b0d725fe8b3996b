package tensor

import "sync/atomic"

// Storage is a run of memory on one device, shared by a tensor and its views.
type Storage struct {
	place Place
	bytes int
	host  []float32 // host memory, nil elsewhere
	addr  uintptr   // device address, 0 for host memory
	refs  atomic.Int32
	free  func(*Storage)
}

// HostStorage wraps host memory; free is called when the last tensor over it
// is released, and may be nil.
func HostStorage(mem []float32, free func(*Storage)) *Storage {
	return &Storage{place: Place{Kind: CPU}, bytes: 4 * len(mem), host: mem, free: free}
}

// DeviceStorage wraps bytes of device memory at addr; free as in HostStorage.
func DeviceStorage(place Place, addr uintptr, bytes int, free func(*Storage)) *Storage {
	return &Storage{place: place, bytes: bytes, addr: addr, free: free}
}

// Bytes is the size of the storage.
func (s *Storage) Bytes() int { return s.bytes }

// Addr is the device address of the first byte; 0 for host memory.
func (s *Storage) Addr() uintptr { return s.addr }

// Host is the host memory behind the storage, nil for device memory.
func (s *Storage) Host() []float32 { return s.host }

// retain counts one more tensor over the storage.
func (s *Storage) retain() { s.refs.Add(1) }

// release counts one tensor less and frees the memory after the last.
func (s *Storage) release() {
	if s.refs.Add(-1) == 0 && s.free != nil {
		s.free(s)
	}
}
