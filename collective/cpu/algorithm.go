package cpu

// The algorithms. Between each pair of ranks an operation has two lanes in each
// direction, and everything is made of them:
//
//	scatter  rank r sends to p what p has to reduce (or, from the root of a
//	         broadcast, what p has to pass on). It may always be sent.
//	gather   rank r sends to every other rank its own part of the result. It
//	         is sent as far as the part is ready.
//
//	all-reduce, large   the buffer is cut into one chunk a rank; scatter sends
//	                    chunk p to rank p, which adds the chunks of all ranks in
//	                    rank order, segment by segment; gather spreads each
//	                    segment as soon as it is reduced. Each rank sends
//	                    2(n-1)/n of the buffer, as little as a ring does, in two
//	                    steps instead of the ring's 2(n-1), and the sum does not
//	                    depend on where an element lies.
//	all-reduce, small   everybody scatters the whole buffer to everybody and
//	                    adds all of them: one step.
//	reduce-scatter      scatter alone.
//	all-gather          gather alone, ready at once.
//	broadcast, large    the root scatters, everybody gathers.
//	broadcast, small    the root's gather alone, with the whole buffer.
//	barrier             no lane: the first frames say all.
const (
	// maxSegment and minSegment bound the payload of a frame, in bytes.
	maxSegment = 256 << 10
	minSegment = 16 << 10

	// slotMemory is what the slots of all peers may take together, in bytes: a
	// part of the last-level cache.
	slotMemory = 1 << 20

	// exchangeMax is the largest all-reduce in one step, in bytes. Measured on
	// 2 cores: with 2, 4 and 8 ranks two steps begin to win at 50 to 60 KiB.
	exchangeMax = 48 << 10

	// flatMax is the largest broadcast that the root sends to each rank by
	// itself, in bytes.
	flatMax = 64 << 10
)

// segmentOf is the payload of a frame in a group of size ranks; all of them
// come to the same answer.
func segmentOf(size int) int {
	s := maxSegment
	for s > minSegment && s*(size-1) > slotMemory {
		s /= 2
	}
	return s
}

// chunk is the part [from, to) of size bytes that rank r of n reduces. Chunks
// begin at cache lines as long as there is more than one line a rank.
func chunk(size, element, n, r int) (from, to int) {
	grain := max(64, element)
	if size < grain*n {
		grain = element
	}
	units := (size + grain - 1) / grain
	per, more := units/n, units%n
	first := r*per + min(r, more)
	last := first + per
	if r < more {
		last++
	}
	return min(first*grain, size), min(last*grain, size)
}

// plan sets the lanes of an operation.
func (e *engine) plan(o *operation) {
	for _, p := range e.peers {
		p.reset()
	}
	e.ready, e.exchange, e.own = 0, false, sums{}
	switch o.op {
	case opAllReduce:
		e.planAllReduce(o)
	case opReduceScatter:
		e.planReduceScatter(o)
	case opBroadcast:
		e.planBroadcast(o)
	case opAllGather:
		e.planAllGather(o)
	}
}

func (e *engine) planAllReduce(o *operation) {
	buf, element := o.dst, o.dtype.Size()
	if len(buf) <= min(exchangeMax, e.segment) {
		e.exchange = true
		e.own = sums{reduce: reducerOf(o.dtype, o.reduce), src: buf, dst: buf}
		for _, p := range e.peers {
			p.scatterOut = lane{data: buf, size: len(buf)}
			p.scatterIn = lane{size: len(buf)}
		}
		return
	}
	from, to := chunk(len(buf), element, e.size, e.rank)
	mine := buf[from:to]
	e.own = sums{reduce: reducerOf(o.dtype, o.reduce), src: mine, dst: mine}
	for _, p := range e.peers {
		f, t := chunk(len(buf), element, e.size, p.rank)
		theirs := buf[f:t]
		p.scatterOut = lane{data: theirs, size: len(theirs)}
		p.scatterIn = lane{size: len(mine)}
		p.gatherOut = lane{data: mine, size: len(mine)}
		p.gatherIn = lane{data: theirs, size: len(theirs)}
	}
}

func (e *engine) planReduceScatter(o *operation) {
	size := len(o.dst)
	part := func(r int) []byte { return o.src[r*size : (r+1)*size] }
	e.own = sums{reduce: reducerOf(o.dtype, o.reduce), src: part(e.rank), dst: o.dst}
	for _, p := range e.peers {
		p.scatterOut = lane{data: part(p.rank), size: size}
		p.scatterIn = lane{size: size}
	}
}

func (e *engine) planBroadcast(o *operation) {
	buf, root := o.dst, int(o.root)
	if len(buf) <= flatMax || e.size == 2 {
		if e.rank == root {
			e.ready = len(buf)
		}
		for _, p := range e.peers {
			if e.rank == root {
				p.gatherOut = lane{data: buf, size: len(buf)}
			} else if p.rank == root {
				p.gatherIn = lane{data: buf, size: len(buf)}
			}
		}
		return
	}
	part := func(r int) []byte {
		from, to := chunk(len(buf), o.dtype.Size(), e.size, r)
		return buf[from:to]
	}
	mine := part(e.rank)
	if e.rank == root {
		e.ready = len(mine)
	}
	for _, p := range e.peers {
		theirs := part(p.rank)
		switch {
		case e.rank == root:
			p.scatterOut = lane{data: theirs, size: len(theirs)}
			p.gatherOut = lane{data: mine, size: len(mine)}
		case p.rank == root:
			p.scatterIn = lane{data: mine, size: len(mine)}
			p.gatherIn = lane{data: theirs, size: len(theirs)}
		default:
			p.gatherOut = lane{data: mine, size: len(mine)}
			p.gatherIn = lane{data: theirs, size: len(theirs)}
		}
	}
}

func (e *engine) planAllGather(o *operation) {
	size := len(o.src)
	copy(o.dst[e.rank*size:], o.src)
	e.ready = size
	for _, p := range e.peers {
		p.gatherOut = lane{data: o.src, size: size}
		p.gatherIn = lane{data: o.dst[p.rank*size : (p.rank+1)*size], size: size}
	}
}

// opening is the size of the payload on the first frame from a rank that has
// these lanes to send. Sender and receiver know it without asking.
func (e *engine) opening(sender int, scatter, gather *lane) int {
	ready := e.mine.op == opAllGather || (e.mine.op == opBroadcast && sender == int(e.mine.root))
	switch {
	case scatter.size > 0:
		return min(e.segment, scatter.size)
	case ready:
		return min(e.segment, gather.size)
	}
	return 0
}

// sums is the reduction of this rank's own chunk. Its order is the order of
// ranks: x0+x1, +x2, ... so that bits depend on nothing else.
type sums struct {
	reduce   reducer // nil: the operation has none
	src, dst []byte  // this rank's share, and where the result goes
	at       int     // bytes finished
	turn     int     // the rank whose share of the segment comes next
}

// accumulate reduces what has arrived. Up to this rank's turn the sum grows in
// the slot of rank 0, then in dst: a+b and b+a have the same bits.
func (e *engine) accumulate() {
	s := &e.own
	for s.at < len(s.dst) {
		size := min(e.segment, len(s.dst)-s.at)
		dst := s.dst[s.at : s.at+size]
		for ; s.turn < e.size; s.turn++ {
			if s.turn == e.rank {
				copy(dst, s.src[s.at:s.at+size])
				if e.rank > 0 {
					zero := e.byRank[0]
					s.reduce(dst, zero.slot[:size])
					zero.release()
				}
				continue
			}
			p := e.byRank[s.turn]
			if !p.full {
				return
			}
			switch {
			case s.turn == 0: // the sum begins with it
			case s.turn < e.rank:
				s.reduce(e.byRank[0].slot[:size], p.slot[:size])
				p.release()
			default:
				s.reduce(dst, p.slot[:size])
				p.release()
			}
		}
		s.at += size
		s.turn = 0
		e.ready = s.at
	}
}

// exchanged reduces a small all-reduce once everything is in and out. Every
// rank does the same additions with the operands in the same places, so that
// even the payload of a NaN is the same everywhere.
func (e *engine) exchanged() {
	s := &e.own
	size := len(s.dst)
	sum := e.sum[:size]
	for r := range e.size {
		share := s.src
		if r != e.rank {
			share = e.byRank[r].slot[:size]
		}
		if r == 0 {
			copy(sum, share)
		} else {
			s.reduce(sum, share)
		}
	}
	copy(s.dst, sum)
}
