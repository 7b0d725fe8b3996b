//go:build cuda

package cuda

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cuda/allocator"
	"github.com/ddprun/ddprun/worker/device/cuda/driver"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Alloc returns a tensor with unspecified contents, aligned to 512 bytes.
// Without memory the error holds an *allocator.OutOfMemory, which reports what
// holds it.
func (d *Device) Alloc(name string, dtype tensor.DType, shape ...int) (*tensor.Tensor, error) {
	t, _, err := d.allocOn(d.compute, name, dtype, shape)
	return t, err
}

// AllocInput is Alloc for a tensor that is uploaded once and then read by
// operators: its upload runs on a stream of its own, beside the operators that
// were enqueued before, which may therefore not use the tensor's memory.
// Operators enqueued after the upload wait for it.
func (d *Device) AllocInput(name string, dtype tensor.DType, shape ...int) (*tensor.Tensor, error) {
	t, addr, err := d.allocOn(d.copies, name, dtype, shape)
	if err != nil || addr == 0 {
		return t, err
	}
	return t, d.memory.RecordStream(addr, allocator.Stream(d.compute))
}

// maxElements keeps byte counts inside an int.
const maxElements = 1 << 48

func (d *Device) allocOn(s driver.Stream, name string, dtype tensor.DType, shape []int) (*tensor.Tensor, uintptr, error) {
	if dtype != tensor.Float32 && dtype != tensor.Int32 {
		return nil, 0, fmt.Errorf("alloc %s: the cuda device has no %s", name, dtype)
	}
	n := tensor.Count(shape)
	if n < 0 || n > maxElements {
		return nil, 0, fmt.Errorf("alloc %s: shape %v has a negative dimension or too many elements", name, shape)
	}
	bytes := n * dtype.Size()
	var addr uintptr
	free := d.nothing
	if bytes > 0 {
		var err error
		if addr, err = d.memory.Alloc(bytes, allocator.Stream(s), name); err != nil {
			return nil, 0, fmt.Errorf("alloc %s %s%v: %w", name, dtype, shape, err)
		}
		free = d.release
	}
	t, err := tensor.New(name, dtype, tensor.DeviceStorage(d.place, addr, bytes, free), 0, shape...)
	return t, addr, err
}

func (d *Device) nothing(*tensor.Storage) {}

// release gives a tensor's memory back. An error means that the GPU is lost,
// which the next operator reports.
func (d *Device) release(s *tensor.Storage) { _ = d.memory.Free(s.Addr()) }

// temp is memory for one operator: it goes back with drop once the operator's
// kernels are enqueued, since what comes later on the stream runs later.
func (d *Device) temp(op string, bytes int) (uintptr, error) {
	addr, err := d.memory.Alloc(bytes, allocator.Stream(d.compute), "scratch of "+op)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	return addr, nil
}

func (d *Device) drop(addr uintptr) { _ = d.memory.Free(addr) } // only an address that is not handed out is an error

// Zero sets all elements to zero.
func (d *Device) Zero(t *tensor.Tensor) error {
	if err := operand.One(d.place, "zero", t, -1); err != nil || t.Len() == 0 {
		return err
	}
	return d.named("zero", d.ctx.Set(t.Addr(), 0, t.Bytes()/4, d.compute))
}

// Copy copies src into dst.
func (d *Device) Copy(dst, src *tensor.Tensor) error {
	if err := operand.Copy(d.place, dst, src); err != nil || dst.Len() == 0 || dst.Addr() == src.Addr() {
		return err
	}
	return d.named("copy", d.ctx.CopyOnDevice(dst.Addr(), src.Addr(), dst.Bytes(), d.compute))
}

// named puts the operator in front of an error.
func (d *Device) named(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s on %s: %w", op, d.place, err)
}

// Stats tells the use of memory. What the device holds outside the cache (the
// workspace of matrix products, tables of parameters) is not counted.
func (d *Device) Stats() device.MemoryStats {
	s := d.memory.Stats()
	all := allocator.All
	return device.MemoryStats{
		Allocated: s.AllocatedBytes[all].Current, PeakAllocated: s.AllocatedBytes[all].Peak,
		Reserved: s.ReservedBytes[all].Current, PeakReserved: s.ReservedBytes[all].Peak,
	}
}

// Memory is the caching allocator, for its statistics, its summary and
// EmptyCache.
func (d *Device) Memory() *allocator.Allocator { return d.memory }
