//go:build cuda

package cuda

import (
	"github.com/ddprun/ddprun/worker/device/cuda/driver"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
	"github.com/ddprun/ddprun/worker/device/cuda/staging"
	"github.com/ddprun/ddprun/worker/tensor"
)

const (
	ringBytes    = 32 << 20 // of pinned memory, for uploads under way
	landingBytes = 4 << 20  // of pinned memory, twice, for downloads
)

// landing is pinned memory that a part of a download arrives in.
type landing struct {
	mem  []byte
	done driver.Event
}

// Upload copies host bytes into t, through pinned memory: it returns when src
// is free again, which is before the GPU has the bytes.
func (d *Device) Upload(t *tensor.Tensor, src []byte) error {
	if err := operand.One(d.place, "upload", t, len(src)); err != nil || len(src) == 0 {
		return err
	}
	stream := d.compute
	if s, ok := d.memory.StreamOf(t.Addr()); ok {
		stream = driver.Stream(s)
	}
	return d.named("upload", d.send(t.Addr(), src, stream))
}

// send enqueues a copy from host memory that need not be pinned; the compute
// stream waits for it.
func (d *Device) send(dst uintptr, src []byte, stream driver.Stream) error {
	if d.ring == nil {
		p, err := d.pin(ringBytes)
		if err != nil {
			return err
		}
		d.ring = staging.New[driver.Event](p.Bytes, d.events)
	}
	var last driver.Event
	for len(src) > 0 {
		n := min(len(src), d.ring.Most())
		mem, err := d.ring.Reserve(n)
		if err != nil {
			return err
		}
		copy(mem, src)
		if err := d.ctx.CopyToDevice(dst, mem, stream); err != nil {
			return err
		}
		if last, err = d.events.record(stream); err != nil {
			return err
		}
		d.ring.Commit(last)
		dst, src = dst+uintptr(n), src[n:]
	}
	if stream == d.compute {
		return nil
	}
	return d.ctx.StreamWait(d.compute, last)
}

// Download waits for the work enqueued so far and copies t into dst.
func (d *Device) Download(dst []byte, t *tensor.Tensor) error {
	if err := operand.One(d.place, "download", t, len(dst)); err != nil || len(dst) == 0 {
		return err
	}
	if err := d.receive(dst, t.Addr()); err != nil {
		return d.named("download of "+t.Name, err)
	}
	return d.faults.take()
}

// receive copies device memory to the host in parts: one is under way while
// the one before is copied out.
func (d *Device) receive(dst []byte, src uintptr) error {
	parts := (len(dst) + landingBytes - 1) / landingBytes
	for i := range parts + 1 {
		if i < parts {
			l, err := d.landing(i % 2)
			if err != nil {
				return err
			}
			n := min(landingBytes, len(dst)-i*landingBytes)
			if err := d.ctx.CopyToHost(l.mem[:n], src+uintptr(i*landingBytes), d.compute); err != nil {
				return err
			}
			if err := d.ctx.Record(l.done, d.compute); err != nil {
				return err
			}
		}
		if i > 0 {
			l := &d.down[(i-1)%2]
			if err := d.ctx.WaitEvent(l.done); err != nil {
				return err
			}
			copy(dst[(i-1)*landingBytes:], l.mem)
		}
	}
	return nil
}

func (d *Device) landing(i int) (*landing, error) {
	l := &d.down[i]
	if l.mem != nil {
		return l, nil
	}
	p, err := d.pin(landingBytes)
	if err != nil {
		return nil, err
	}
	if l.done, err = d.events.take(); err != nil {
		return nil, err
	}
	l.mem = p.Bytes
	return l, nil
}
