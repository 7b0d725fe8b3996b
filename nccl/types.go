package nccl

import (
	"fmt"
	"math"
)

// Version is NCCL's version code: 22809 is 2.28.9.
type Version int

// Oldest is the first version that Open accepts: the first with
// ncclCommSplit and with the configuration layout that all later ones extend.
const Oldest Version = 21800

func (v Version) String() string {
	if v < 10000 { // the code of 2.8 and before
		return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// DataType is the type of the elements of a buffer (ncclDataType_t).
type DataType int

// Data types. The float8 ones need NCCL 2.24.
const (
	Int8 DataType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	Bfloat16
	Float8E4M3
	Float8E5M2
)

// Op is a reduction (ncclRedOp_t): one of the constants, or the result of
// Comm.PreMulSum.
type Op int

// Reductions.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
)

// idBytes is the size of ncclUniqueId.
const idBytes = 128

// UniqueID is what the ranks of a new communicator must have in common. One
// rank draws it (Library.UniqueID) and sends it to the others.
type UniqueID [idBytes]byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (u UniqueID) MarshalBinary() ([]byte, error) { return append([]byte(nil), u[:]...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (u *UniqueID) UnmarshalBinary(b []byte) error {
	if len(b) != idBytes {
		return fmt.Errorf("nccl unique id: %d bytes, want %d", len(b), idBytes)
	}
	copy(u[:], b)
	return nil
}

// Config are the settings of a new communicator; zero values leave the choice
// to NCCL. Ranks should agree on all of them.
type Config struct {
	// Name shows in NCCL's log and in its RAS report (2.27 and later); at most
	// 63 bytes count.
	Name string
	// Blocking makes calls return only when their work is enqueued: cheaper by
	// a thread start per call, but a call that hangs can be ended by Abort
	// alone, and InitRank does not heed its context. Without it every call is
	// polled.
	Blocking       bool
	CGAClusterSize int
	MinCTAs        int
	MaxCTAs        int
	// Net is the network module, "Socket" or "IB".
	Net string
	// SplitShare lets children made by Split share the parent's resources.
	SplitShare bool
}

// scalar encodes factor as one element of type t, for PreMulSum.
func scalar(factor float64, t DataType) ([]byte, error) {
	switch t {
	case Float64:
		return littleEndian(math.Float64bits(factor), 8), nil
	case Float32:
		return littleEndian(uint64(math.Float32bits(float32(factor))), 4), nil
	case Bfloat16:
		bits := math.Float32bits(float32(factor))
		bits += 0x7fff + bits>>16&1 // to nearest, ties to even
		return littleEndian(uint64(bits>>16), 2), nil
	case Float16:
		return littleEndian(uint64(half(float32(factor))), 2), nil
	}
	return nil, fmt.Errorf("nccl pre-multiplied sum: elements of type %d; it is there for floating-point types", t)
}

func littleEndian(bits uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(bits >> (8 * i))
	}
	return b
}

// half rounds to IEEE binary16, to nearest, ties to even.
func half(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := math.Abs(float64(f))
	switch {
	case math.IsNaN(magnitude):
		return sign | 0x7e00
	case magnitude >= 65520: // halfway between the largest half and the next
		return sign | 0x7c00
	case magnitude < 0x1p-14: // subnormal: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(magnitude*0x1p24))
	}
	_, exp := math.Frexp(magnitude) // magnitude = m * 2^exp, 0.5 <= m < 1
	steps := math.RoundToEven(math.Ldexp(magnitude, 11-exp))
	// 1024 <= steps <= 2048; a carry moves into the exponent by itself.
	return sign | uint16((exp+14-1)<<10+int(steps))
}
