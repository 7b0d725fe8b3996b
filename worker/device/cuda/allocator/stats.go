package allocator

// Indices of a Family.
const (
	All = iota
	SmallPool
	LargePool
)

// Counter is a quantity over time.
type Counter struct {
	Current   int
	Peak      int
	Allocated int // sum of all increases
	Freed     int // sum of all decreases
}

func (c *Counter) add(n int) {
	c.Current += n
	c.Peak = max(c.Peak, c.Current)
	if n > 0 {
		c.Allocated += n
	} else {
		c.Freed -= n
	}
}

// Family is a counter for all memory, the small and the large pool.
type Family [3]Counter

func (f *Family) add(k kind, n int) {
	f[All].add(n)
	f[SmallPool+int(k)].add(n)
}

// Stats are PyTorch's memory statistics, with its meanings.
type Stats struct {
	Allocations   Family // blocks handed out
	Segments      Family // pieces taken from the device
	Active        Family // blocks handed out, or freed and waiting for events
	InactiveSplit Family // free parts of segments that are in use otherwise

	AllocatedBytes     Family
	ReservedBytes      Family
	ActiveBytes        Family
	InactiveSplitBytes Family
	RequestedBytes     Family // before rounding, of active blocks

	OversizeAllocations Counter // blocks of at least MaxSplit
	OversizeSegments    Counter

	Retries        int // of the device after the cache was emptied
	OOMs           int // requests refused
	SyncAllStreams int
	DeviceAllocs   int
	DeviceFrees    int
	MaxSplit       int // bytes; 0: no limit
}

// families is every family, for resets.
func (s *Stats) families() []*Family {
	return []*Family{
		&s.Allocations, &s.Segments, &s.Active, &s.InactiveSplit,
		&s.AllocatedBytes, &s.ReservedBytes, &s.ActiveBytes, &s.InactiveSplitBytes, &s.RequestedBytes,
	}
}

func (s *Stats) counters() []*Counter {
	cs := []*Counter{&s.OversizeAllocations, &s.OversizeSegments}
	for _, f := range s.families() {
		cs = append(cs, &f[All], &f[SmallPool], &f[LargePool])
	}
	return cs
}

func (s *Stats) handOut(b *block) {
	s.Allocations.add(b.kind, 1)
	s.AllocatedBytes.add(b.kind, b.size)
	s.Active.add(b.kind, 1)
	s.ActiveBytes.add(b.kind, b.size)
	s.RequestedBytes.add(b.kind, b.requested)
	if s.MaxSplit > 0 && b.size >= s.MaxSplit {
		s.OversizeAllocations.add(1)
	}
}

func (s *Stats) takeBack(b *block) {
	s.Allocations.add(b.kind, -1)
	s.AllocatedBytes.add(b.kind, -b.size)
	if s.MaxSplit > 0 && b.size >= s.MaxSplit {
		s.OversizeAllocations.add(-1)
	}
}

// settle is the end of a block's use.
func (s *Stats) settle(b *block) {
	s.Active.add(b.kind, -1)
	s.ActiveBytes.add(b.kind, -b.size)
	s.RequestedBytes.add(b.kind, -b.requested)
}

// Stats returns the statistics of this moment.
func (a *Allocator) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// ResetPeaks makes every peak the present value.
func (a *Allocator) ResetPeaks() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.stats.counters() {
		c.Peak = c.Current
	}
}

// ResetAccumulated makes the sums of increases and decreases, and the counts
// of retries and refusals, zero.
func (a *Allocator) ResetAccumulated() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.stats.counters() {
		c.Allocated, c.Freed = 0, 0
	}
	a.stats.Retries, a.stats.OOMs = 0, 0
}
