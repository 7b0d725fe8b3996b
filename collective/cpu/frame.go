package cpu

import (
	"encoding/binary"
	"fmt"

	"github.com/ddprun/ddprun/collective"
)

// Everything between two ranks is a frame: a header of headerLen bytes, little
// endian, and a payload.
//
//	kind uint8 | op uint8 | dtype uint8 | reduce op uint8 | payload length uint32
//	sequence number uint64 | a uint64 | b uint64
const headerLen = 32

type kind uint8

const (
	// kindOp opens an operation; a is its count, b its root. Each rank sends
	// one to every peer, so that a difference is seen by both. The payload is
	// the first segment of the scatter lane or, if there is none, of the
	// gather lane.
	kindOp kind = iota + 1
	// kindScatter and kindGather carry a segment of a lane; a is its offset.
	kindScatter
	kindGather
	// kindFarewell is the last frame of a connection: a is the rank at fault,
	// b the failure class, the payload says why.
	kindFarewell
)

type opcode uint8

const (
	opAllReduce opcode = iota + 1
	opBroadcast
	opAllGather
	opReduceScatter
	opBarrier
)

func (o opcode) String() string {
	switch o {
	case opAllReduce:
		return "all-reduce"
	case opBroadcast:
		return "broadcast"
	case opAllGather:
		return "all-gather"
	case opReduceScatter:
		return "reduce-scatter"
	case opBarrier:
		return "barrier"
	}
	return fmt.Sprintf("operation(%d)", uint8(o))
}

// spec is what all ranks must agree on.
type spec struct {
	op     opcode
	dtype  collective.DType
	reduce collective.ReduceOp
	root   uint64
	count  uint64 // of the rank's own part: src of all-gather, dst of reduce-scatter
	seq    uint64
}

func (s spec) String() string {
	switch s.op {
	case opAllReduce, opReduceScatter:
		return fmt.Sprintf("%v #%d (%d %v, %v)", s.op, s.seq, s.count, s.dtype, s.reduce)
	case opBroadcast:
		return fmt.Sprintf("%v #%d (%d %v, root %d)", s.op, s.seq, s.count, s.dtype, s.root)
	case opAllGather:
		return fmt.Sprintf("%v #%d (%d %v)", s.op, s.seq, s.count, s.dtype)
	}
	return fmt.Sprintf("%v #%d", s.op, s.seq)
}

// header is a frame's header, decoded.
type header struct {
	kind kind
	spec spec
	size int    // of the payload
	a, b uint64 // see kind
}

func (h *header) encode(b *[headerLen]byte) {
	b[0] = byte(h.kind)
	b[1] = byte(h.spec.op)
	b[2] = byte(h.spec.dtype)
	b[3] = byte(h.spec.reduce)
	binary.LittleEndian.PutUint32(b[4:], uint32(h.size))
	binary.LittleEndian.PutUint64(b[8:], h.spec.seq)
	binary.LittleEndian.PutUint64(b[16:], h.a)
	binary.LittleEndian.PutUint64(b[24:], h.b)
}

// decode reads a header. Its size is bounded by what the kind allows.
func (h *header) decode(b *[headerLen]byte) error {
	h.kind = kind(b[0])
	h.spec = spec{
		op: opcode(b[1]), dtype: collective.DType(b[2]), reduce: collective.ReduceOp(b[3]),
		seq: binary.LittleEndian.Uint64(b[8:]),
	}
	size := binary.LittleEndian.Uint32(b[4:])
	h.a = binary.LittleEndian.Uint64(b[16:])
	h.b = binary.LittleEndian.Uint64(b[24:])
	limit := uint32(maxSegment)
	switch h.kind {
	case kindOp:
		h.spec.count, h.spec.root = h.a, h.b
	case kindScatter, kindGather:
	case kindFarewell:
		limit = maxFarewell
	default:
		return fmt.Errorf("frame of unknown kind %d", b[0])
	}
	if size > limit {
		return fmt.Errorf("frame of kind %d with %d bytes is longer than %d", b[0], size, limit)
	}
	h.size = int(size)
	return nil
}
