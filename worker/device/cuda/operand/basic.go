package operand

import (
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// One wants a tensor of whatever type that has, when bytes is not negative, so
// many bytes in a host buffer.
func One(p tensor.Place, op string, t T, bytes int) error {
	c := check{place: p, op: op}
	if c.any("tensor", t) && bytes >= 0 && bytes != t.Bytes() {
		c.fail("tensor %s %s%v has %d bytes, the host buffer %d", t.Name, t.DType(), t.Shape(), t.Bytes(), bytes)
	}
	return c.err
}

// Copy checks the operands of Memory.Copy.
func Copy(p tensor.Place, dst, src T) error {
	c := check{place: p, op: "copy"}
	c.any("destination", dst)
	c.any("source", src)
	if c.err == nil && (dst.DType() != src.DType() || dst.Len() != src.Len()) {
		c.fail("destination %s is %s%v, source %s is %s%v; type and number of elements must agree",
			dst.Name, dst.DType(), dst.Shape(), src.Name, src.DType(), src.Shape())
	}
	c.sameOrApart("destination", dst, "source", src)
	return c.err
}

// BiasGrad returns the shape of dout.
func BiasGrad(p tensor.Place, dbias, dout T) (rows, n int, err error) {
	c := check{place: p, op: "bias gradient"}
	if c.float("dout", dout) {
		rows, n = fold(dout)
		c.vector("dbias", dbias, n)
	}
	c.counts("the row length", n)
	c.apart("dbias", dbias, "dout", dout)
	return rows, n, c.err
}

// Activate checks the operands of Ops.Activate.
func Activate(p tensor.Place, out, x T, act device.Activation) error {
	c := check{place: p, op: "activate"}
	c.activation(act)
	c.float("x", x)
	c.like("out", out, x)
	c.sameOrApart("out", out, "x", x)
	return c.err
}

// ActivateGrad checks the operands of Ops.ActivateGrad.
func ActivateGrad(p tensor.Place, dx, dout, at T, act device.Activation) error {
	c := check{place: p, op: "activation gradient"}
	c.activation(act)
	c.float("dout", dout)
	c.like("dx", dx, dout)
	if act != device.Identity {
		c.like("at", at, dout)
		c.sameOrApart("dx", dx, "at", at)
	}
	c.sameOrApart("dx", dx, "dout", dout)
	return c.err
}

// Add checks the operands of Ops.Add.
func Add(p tensor.Place, out, a, b T) error {
	c := check{place: p, op: "add"}
	c.float("a", a)
	c.like("b", b, a)
	c.like("out", out, a)
	c.sameOrApart("out", out, "a", a)
	c.sameOrApart("out", out, "b", b)
	return c.err
}

// Scale checks the operand of Ops.Scale.
func Scale(p tensor.Place, t T) error {
	c := check{place: p, op: "scale"}
	c.float("tensor", t)
	return c.err
}

// Dropout checks the operands of Ops.Dropout.
func Dropout(p tensor.Place, a device.DropoutArgs) error {
	c := check{place: p, op: "dropout"}
	c.float("X", a.X)
	c.like("Out", a.Out, a.X)
	if !(a.P >= 0 && a.P <= 1) {
		c.fail("P is %g, want 0 to 1", a.P)
	}
	c.sameOrApart("Out", a.Out, "X", a.X)
	return c.err
}
