package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ddprun/ddprun/worker/tensor"
)

// Alloc returns a tensor with unspecified contents, aligned to a cache line.
func (d *Device) Alloc(name string, dtype tensor.DType, shape ...int) (*tensor.Tensor, error) {
	if dtype != tensor.Float32 && dtype != tensor.Int32 {
		return nil, fmt.Errorf("alloc %s: the cpu device has no %s", name, dtype)
	}
	n := tensor.Count(shape)
	if n < 0 || n > maxElements {
		return nil, fmt.Errorf("alloc %s: shape %v has a negative dimension or too many elements", name, shape)
	}
	s, err := d.pool.storage(n)
	if err != nil {
		return nil, fmt.Errorf("alloc %s %s%v: %w", name, dtype, shape, err)
	}
	return tensor.New(name, dtype, s, 0, shape...)
}

// maxElements keeps byte counts inside an int.
const maxElements = 1 << 48

// Upload copies host bytes into t.
func (d *Device) Upload(t *tensor.Tensor, src []byte) error {
	dst, err := d.bytes("upload", t, len(src))
	if err == nil {
		copy(dst, src)
	}
	return err
}

// Download copies t's bytes into dst.
func (d *Device) Download(dst []byte, t *tensor.Tensor) error {
	src, err := d.bytes("download", t, len(dst))
	if err == nil {
		copy(dst, src)
	}
	return err
}

// Zero sets all elements to zero.
func (d *Device) Zero(t *tensor.Tensor) error {
	c := d.check("zero")
	c.any("tensor", t)
	if c.err == nil {
		clear(raw(t))
	}
	return c.err
}

// Copy copies src into dst.
func (d *Device) Copy(dst, src *tensor.Tensor) error {
	c := d.check("copy")
	c.any("destination", dst)
	c.any("source", src)
	if c.err == nil && (dst.DType() != src.DType() || dst.Len() != src.Len()) {
		c.err = fmt.Errorf("copy: destination %s is %s%v, source %s is %s%v; type and number of elements must agree",
			dst.Name, dst.DType(), dst.Shape(), src.Name, src.DType(), src.Shape())
	}
	if c.err == nil {
		copy(raw(dst), raw(src))
	}
	return c.err
}

// bytes is t's memory, checked to be n long.
func (d *Device) bytes(op string, t *tensor.Tensor, n int) ([]byte, error) {
	c := d.check(op)
	c.any("tensor", t)
	if c.err == nil && n != t.Bytes() {
		c.err = fmt.Errorf("%s: tensor %s %s%v has %d bytes, the host buffer %d", op, t.Name, t.DType(), t.Shape(), t.Bytes(), n)
	}
	if c.err != nil {
		return nil, c.err
	}
	return raw(t), nil
}

// raw is the memory of a host tensor.
func raw(t *tensor.Tensor) []byte {
	if t.Len() == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(t.Pointer()), t.Bytes())
}
