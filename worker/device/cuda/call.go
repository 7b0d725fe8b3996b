//go:build cuda

package cuda

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/worker/device/cuda/driver"
	"github.com/ddprun/ddprun/worker/device/cuda/kernels"
)

// call puts the launch of a kernel together: its arguments in order, then its
// grid, then run. A device has one, so a launch takes nothing from the Go heap.
type call struct {
	d      *Device
	op     string
	kernel string
	n      int
	args   [driver.MaxArgs]uint64
	types  [driver.MaxArgs]byte
	dims   driver.Dims
}

// start begins the launch of a kernel for an operator.
func (d *Device) start(op, kernel string) *call {
	c := &d.next
	c.op, c.kernel, c.n = op, kernel, 0
	c.dims = driver.Dims{GridX: 1, GridY: 1, GridZ: 1, BlockX: 256, BlockY: 1, BlockZ: 1}
	return c
}

func (c *call) arg(kind byte, word uint64) *call {
	c.args[c.n], c.types[c.n] = word, kind
	c.n++
	return c
}

// tensors passes the address of each, null for nil.
func (c *call) tensors(ts ...T) *call {
	for _, t := range ts {
		if t == nil {
			c.addr(0)
		} else {
			c.addr(t.Addr())
		}
	}
	return c
}

func (c *call) addr(addrs ...uintptr) *call {
	for _, a := range addrs {
		c.arg(kernels.Pointer, uint64(a))
	}
	return c
}

// ints passes int32 numbers, which the operand checks hold to their range.
func (c *call) ints(ns ...int) *call {
	for _, n := range ns {
		c.arg(kernels.Int, uint64(uint32(int32(n))))
	}
	return c
}

func (c *call) word(w uint32) *call { return c.arg(kernels.Int, uint64(w)) }

func (c *call) flag(b bool) *call {
	if b {
		return c.ints(1)
	}
	return c.ints(0)
}

func (c *call) long(n int) *call { return c.arg(kernels.Long, uint64(n)) }

func (c *call) long64(n uint64) *call { return c.arg(kernels.Long, n) }

func (c *call) floats(fs ...float32) *call {
	for _, f := range fs {
		c.arg(kernels.Float, uint64(math.Float32bits(f)))
	}
	return c
}

// over sizes the grid for a loop over n elements, four to a thread, with at
// most enough blocks to fill the GPU several times.
func (c *call) over(n int) *call { return c.grid(min(ceil(n, 1024), 16*c.d.props.Multiprocessors), 1) }

// rows sizes the grid for a warp to a row.
func (c *call) rows(n int) *call { return c.grid(min(ceil(n, 8), 16*c.d.props.Multiprocessors), 1) }

func (c *call) grid(x, y int) *call {
	c.dims.GridX, c.dims.GridY = uint32(max(x, 1)), uint32(max(y, 1))
	return c
}

func (c *call) block(x, y int) *call {
	c.dims.BlockX, c.dims.BlockY = uint32(x), uint32(y)
	return c
}

// run enqueues the kernel.
func (c *call) run() error {
	f, err := c.d.code.find(c.kernel)
	if err != nil {
		return c.d.named(c.op, err)
	}
	if string(c.types[:c.n]) != f.params {
		return fmt.Errorf("%s: kernel %s takes (%s), the launch passes (%s)", c.op, c.kernel, f.params, c.types[:c.n])
	}
	if err := c.d.ctx.Launch(f.handle, &c.dims, c.d.compute, c.args[:c.n]); err != nil {
		return fmt.Errorf("%s on %s: kernel %s, grid %v: %w", c.op, c.d.place, c.kernel, c.dims, err)
	}
	return c.d.enqueued(c.op, c.kernel)
}

// enqueued waits for what was just enqueued when the options ask for it.
func (d *Device) enqueued(op, what string) error {
	if !d.opt.Sync || d.capture {
		return nil
	}
	if err := d.ctx.Wait(d.compute); err != nil {
		return fmt.Errorf("%s on %s: %s: %w", op, d.place, what, err)
	}
	return d.faults.take()
}

func ceil(n, by int) int { return (n + by - 1) / by }
