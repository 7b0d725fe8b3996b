//go:build cuda

package cuda

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
)

// chunk is a piece of a tensor and of what belongs to it, ddp_chunk of the
// kernels. One block does one chunk.
type chunk struct {
	p, g, m, v uint64 // addresses
	decay      float32
	n          int32
}

const chunkElements = 32768

// chunkList is a list of chunks under construction. Its uploads stay in device
// memory from step to step: parameters, gradients and moments do not move.
type chunkList struct {
	chunks []chunk
	kept   map[string]*shelf // by operator
}

// shelf is the last few lists of an operator: a step may have several.
type shelf struct {
	tables [4]table
	next   int // to be replaced
}

// table is a list in device memory.
type table struct {
	chunks []chunk
	addr   uintptr
	room   int // chunks that addr has room for
}

// begin empties the list.
func (l *chunkList) begin() *chunkList {
	l.chunks = l.chunks[:0]
	return l
}

// add appends the chunks of one parameter; nil tensors are null.
func (l *chunkList) add(n int, decay float32, p, g, m, v T) {
	for from := 0; from < n; from += chunkElements {
		at := func(x T) uint64 {
			if x == nil {
				return 0
			}
			return uint64(x.Addr()) + uint64(4*from)
		}
		l.chunks = append(l.chunks, chunk{p: at(p), g: at(g), m: at(m), v: at(v), decay: decay, n: int32(min(chunkElements, n-from))})
	}
}

// find is the table that holds the list already, or the one to put it into.
func (l *chunkList) find(op string) (t *table, found bool) {
	s := l.kept[op]
	if s == nil {
		s = &shelf{}
		l.kept[op] = s
	}
	for i := range s.tables {
		if slices.Equal(s.tables[i].chunks, l.chunks) {
			return &s.tables[i], true
		}
	}
	t = &s.tables[s.next]
	s.next = (s.next + 1) % len(s.tables)
	return t, false
}

// placed is the device address of the list, which is brought there unless it
// is there already.
func (d *Device) placed(op string) (uintptr, error) {
	t, found := d.lists.find(op)
	if found {
		return t.addr, nil
	}
	fresh := d.lists.chunks
	t.chunks = t.chunks[:0] // until the new ones are there
	if len(fresh) > t.room {
		room := max(len(fresh), 2*t.room)
		addr, err := d.fix(room * int(unsafe.Sizeof(chunk{})))
		if err != nil {
			return 0, d.named(op, err)
		}
		t.addr, t.room = addr, room // the old memory stays until Close: kernels may still read it
	}
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(fresh))), len(fresh)*int(unsafe.Sizeof(chunk{})))
	if err := d.send(t.addr, mem, d.compute); err != nil {
		return 0, d.named(op, err)
	}
	t.chunks = append(t.chunks, fresh...)
	return t.addr, nil
}

// SGD is one step of torch.optim.SGD over all parameters, in one launch.
func (d *Device) SGD(a device.SGDArgs) error {
	const op = "sgd"
	if err := operand.SGD(d.place, a); err != nil {
		return err
	}
	l := d.lists.begin()
	for i, p := range a.Params {
		var m T
		if a.Mu != 0 {
			m = a.Momentum[i]
		}
		l.add(p.Len(), a.WeightDecay, p, a.Grads[i], m, nil)
	}
	if len(l.chunks) == 0 {
		return nil
	}
	at, err := d.placed(op)
	if err != nil {
		return err
	}
	return d.start(op, "ddp_sgd_f32").addr(at).floats(a.LR, a.Mu).flag(a.Nesterov).flag(a.First).floats(a.GradScale).grid(len(l.chunks), 1).run()
}

// Adam is one step of torch.optim.Adam, or AdamW when Decoupled, over all
// parameters in one launch.
func (d *Device) Adam(a device.AdamArgs) error {
	const op = "adam"
	if err := operand.Adam(d.place, a); err != nil {
		return err
	}
	l := d.lists.begin()
	for i, p := range a.Params {
		var decay float32
		if len(a.WeightDecay) > 0 {
			decay = a.WeightDecay[i]
		}
		l.add(p.Len(), decay, p, a.Grads[i], a.Moment1[i], a.Moment2[i])
	}
	if len(l.chunks) == 0 {
		return nil
	}
	at, err := d.placed(op)
	if err != nil {
		return err
	}
	b1, b2 := float64(a.Beta1), float64(a.Beta2)
	c1, c2 := 1-math.Pow(b1, float64(a.Step)), 1-math.Pow(b2, float64(a.Step))
	return d.start(op, "ddp_adam_f32").addr(at).
		floats(a.LR, float32(float64(a.LR)/c1), a.Beta1, float32(1-b1), a.Beta2, float32(1-b2), float32(1/math.Sqrt(c2)), a.Eps).
		flag(a.Decoupled).floats(a.GradScale).grid(len(l.chunks), 1).run()
}

// SumSquares is the sum of the squares of all elements, in float64; it waits.
func (d *Device) SumSquares(ts []T) (float64, error) {
	const op = "sum of squares"
	if err := operand.Floats(d.place, op, ts); err != nil {
		return 0, err
	}
	l := d.lists.begin()
	for _, x := range ts {
		l.add(x.Len(), 0, nil, x, nil, nil)
	}
	if len(l.chunks) == 0 {
		return 0, nil
	}
	at, err := d.placed(op)
	if err != nil {
		return 0, err
	}
	part, err := d.temp(op, 8*(len(l.chunks)+1))
	if err != nil {
		return 0, err
	}
	defer d.drop(part)
	sum := part + uintptr(8*len(l.chunks))
	if err := d.start(op, "ddp_sumsq_f32").addr(part, at).grid(len(l.chunks), 1).run(); err != nil {
		return 0, err
	}
	if err := d.start(op, "ddp_sumsq_finish_f64").addr(sum, part).ints(len(l.chunks)).run(); err != nil {
		return 0, err
	}
	var word [8]byte
	if err := d.receive(word[:], sum); err != nil {
		return 0, d.named(op, err)
	}
	return math.Float64frombits(binary.NativeEndian.Uint64(word[:])), d.faults.take()
}

// NonFinite says whether an element of the tensors is NaN or infinite; it
// waits.
func (d *Device) NonFinite(ts []T) (bool, error) {
	const op = "search for infinities"
	if err := operand.Floats(d.place, op, ts); err != nil {
		return false, err
	}
	l := d.lists.begin()
	for _, x := range ts {
		l.add(x.Len(), 0, nil, x, nil, nil)
	}
	if len(l.chunks) == 0 {
		return false, nil
	}
	at, err := d.placed(op)
	if err != nil {
		return false, err
	}
	found, err := d.temp(op, 4)
	if err != nil {
		return false, err
	}
	defer d.drop(found)
	if err := d.ctx.Set(found, 0, 1, d.compute); err != nil {
		return false, d.named(op, err)
	}
	if err := d.start(op, "ddp_nonfinite_f32").addr(found, at).grid(len(l.chunks), 1).run(); err != nil {
		return false, err
	}
	var word [4]byte
	if err := d.receive(word[:], found); err != nil {
		return false, d.named(op, err)
	}
	return word != [4]byte{}, d.faults.take()
}
