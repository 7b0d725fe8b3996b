package allocator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// OutOfMemory says why a request could not be served, and what holds the
// memory. Sizes are in bytes.
type OutOfMemory struct {
	Tag     string // what the memory was for
	Device  string
	Request int // as asked for
	Segment int // what the device was asked for

	Total, Free         int // of the device; 0 when it would not tell
	Reserved, Allocated int // by this allocator, and handed out of that
	PeakAllocated       int
	LargestFree         int // largest free block
	Unusable            int // free parts of segments that are in use otherwise
	Limit               int // that was set; 0: none

	Live []Live // by size, largest first
}

// Live is memory that is handed out under one tag.
type Live struct {
	Tag   string
	Bytes int
	Count int
}

// liveShown is how many tags a message lists.
const liveShown = 8

func (a *Allocator) outOfMemory(bytes, size int, tag string) *OutOfMemory {
	e := &OutOfMemory{
		Tag: tag, Device: a.opt.Device, Request: bytes, Segment: segmentFor(size), Limit: a.opt.Limit,
		Reserved: a.stats.ReservedBytes[All].Current, Allocated: a.stats.AllocatedBytes[All].Current,
		PeakAllocated: a.stats.AllocatedBytes[All].Peak, Unusable: a.stats.InactiveSplitBytes[All].Current,
		Live: a.live(),
	}
	if free, total, err := a.driver.MemInfo(); err == nil {
		e.Free, e.Total = free, total
	}
	for _, lists := range a.free {
		for _, l := range lists {
			for _, b := range l.blocks {
				e.LargestFree = max(e.LargestFree, b.size)
			}
		}
	}
	return e
}

// live sums up what is handed out, by tag.
func (a *Allocator) live() []Live {
	at := map[string]int{}
	var all []Live
	for _, b := range a.blocks {
		i, ok := at[b.tag]
		if !ok {
			i = len(all)
			at[b.tag] = i
			all = append(all, Live{Tag: b.tag})
		}
		all[i].Bytes += b.size
		all[i].Count++
	}
	slices.SortFunc(all, func(x, y Live) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Tag, y.Tag))
	})
	return all
}

// Live is what is handed out at this moment, by tag, largest first.
func (a *Allocator) Live() []Live {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live()
}

// Error is the whole report.
func (e *OutOfMemory) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "out of memory on %s: %s needs %s (a segment of %s)", e.Device, e.Tag, Size(e.Request), Size(e.Segment))
	if e.Total > 0 {
		fmt.Fprintf(&s, "; the device has %s, %s of it free", Size(e.Total), Size(e.Free))
		if other := e.Total - e.Free - e.Reserved; other > 0 {
			fmt.Fprintf(&s, ", %s used by other processes, CUDA contexts and libraries", Size(other))
		}
	}
	if e.Limit > 0 {
		fmt.Fprintf(&s, "; the memory limit is %s", Size(e.Limit))
	}
	cached := e.Reserved - e.Allocated
	fmt.Fprintf(&s, "; this process has reserved %s: %s in tensors (at most %s so far), %s kept for reuse", Size(e.Reserved), Size(e.Allocated), Size(e.PeakAllocated), Size(cached))
	fmt.Fprintf(&s, " (fragmentation %d%%: largest free piece %s, %s between live tensors)", percent(cached, e.Reserved), Size(e.LargestFree), Size(e.Unusable))
	e.writeLive(&s)
	s.WriteString("\nwhat to do: make train.batch_size smaller (train.accumulate keeps the effective batch)")
	s.WriteString(", then data.block or the model; precision bf16 needs about half for activations")
	if cached > e.Request {
		s.WriteString("; the free pieces together would be enough, so max_split_size_mb in DDPRUN_ALLOC_CONF may help too")
	}
	if other := e.Total - e.Free - e.Reserved; other > e.Total/10 {
		s.WriteString("; see with nvidia-smi whether another process holds memory of this GPU")
	}
	return s.String()
}

func (e *OutOfMemory) writeLive(s *strings.Builder) {
	if len(e.Live) == 0 {
		return
	}
	s.WriteString("\nlargest live tensors:")
	for i, l := range e.Live {
		if i == liveShown {
			fmt.Fprintf(s, ", and %d more names", len(e.Live)-i)
			break
		}
		if i > 0 {
			s.WriteString(",")
		}
		fmt.Fprintf(s, " %s %s", l.Tag, Size(l.Bytes))
		if l.Count > 1 {
			fmt.Fprintf(s, " in %d tensors", l.Count)
		}
	}
}

func percent(part, whole int) int {
	if whole == 0 {
		return 0
	}
	return int(100 * float64(part) / float64(whole))
}

// Size writes bytes for people: 512 B, 20.00 MiB, 1.50 GiB.
func Size(bytes int) string {
	if bytes < kib {
		return fmt.Sprintf("%d B", bytes)
	}
	v, unit := float64(bytes)/kib, 0
	for v >= 1024 && unit < 3 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.2f %s", v, [...]string{"KiB", "MiB", "GiB", "TiB"}[unit])
}
