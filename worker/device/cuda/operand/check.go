package operand

import (
	"fmt"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// T is a tensor, as in package device.
type T = device.T

// check collects the first thing that is wrong with an operator's operands.
// Its methods do nothing once err is set, so a list of them reads as the
// operator's signature.
type check struct {
	place tensor.Place
	op    string
	err   error
}

// fail sets the error; the operator's name goes in front.
func (c *check) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(c.op+": "+format, args...)
	}
}

// any wants a tensor of this device, of whatever type and shape.
func (c *check) any(role string, t T) bool {
	switch {
	case c.err != nil:
	case t == nil:
		c.fail("operand %s is missing", role)
	case t.Place() != c.place:
		c.fail("tensor %s is on %s, the operator runs on %s", t.Name, t.Place(), c.place)
	}
	return c.err == nil
}

// typed wants a tensor of this device and type.
func (c *check) typed(role string, t T, want tensor.DType) bool {
	if c.any(role, t) && t.DType() != want {
		c.fail("%s %s is %s, want %s", role, t.Name, t.DType(), want)
	}
	return c.err == nil
}

// float wants float32.
func (c *check) float(role string, t T) bool { return c.typed(role, t, tensor.Float32) }

// matrix wants float32 of rows x cols, leading dimensions folded into rows.
func (c *check) matrix(role string, t T, rows, cols int) {
	if !c.float(role, t) {
		return
	}
	if r, n := fold(t); r != rows || n != cols {
		c.fail("%s %s is %v, want [%d %d] (leading dimensions are folded into the first)", role, t.Name, t.Shape(), rows, cols)
	}
}

// optMatrix is matrix for an operand that may be nil.
func (c *check) optMatrix(role string, t T, rows, cols int) {
	if t != nil {
		c.matrix(role, t, rows, cols)
	}
}

// vector wants n float32 elements.
func (c *check) vector(role string, t T, n int) {
	if c.float(role, t) && t.Len() != n {
		c.fail("%s %s is %v, want [%d]", role, t.Name, t.Shape(), n)
	}
}

// optVector is vector for an operand that may be nil.
func (c *check) optVector(role string, t T, n int) {
	if t != nil {
		c.vector(role, t, n)
	}
}

// ints wants n int32 elements.
func (c *check) ints(role string, t T, n int) {
	if c.typed(role, t, tensor.Int32) && t.Len() != n {
		c.fail("%s %s is %v, want [%d]", role, t.Name, t.Shape(), n)
	}
}

// like wants float32 with the folded shape of model, which was checked before.
func (c *check) like(role string, t, model T) {
	if c.err == nil {
		rows, cols := fold(model)
		c.matrix(role, t, rows, cols)
	}
}

// planes wants float32 of shape exactly [batch channels height width].
func (c *check) planes(role string, t T, b, ch, h, w int) {
	if c.isPlanes(role, t) && (t.Dim(0) != b || t.Dim(1) != ch || t.Dim(2) != h || t.Dim(3) != w) {
		c.fail("%s %s is %v, want [%d %d %d %d]", role, t.Name, t.Shape(), b, ch, h, w)
	}
}

// isPlanes wants four dimensions.
func (c *check) isPlanes(role string, t T) bool {
	if c.float(role, t) && len(t.Shape()) != 4 {
		c.fail("%s %s is %v, want [batch channels height width]", role, t.Name, t.Shape())
	}
	return c.err == nil
}

// positive wants a count of at least one.
func (c *check) positive(what string, n int) {
	if n < 1 {
		c.fail("%s is %d, want at least 1", what, n)
	}
}

// counts wants numbers that a kernel takes as int32.
func (c *check) counts(what string, ns ...int) {
	for _, n := range ns {
		if n > maxInt32 {
			c.fail("%s is %d, a kernel takes up to %d", what, n, maxInt32)
		}
	}
}

const maxInt32 = 1<<31 - 1

// apart wants operands whose memory does not overlap: the operator writes one
// while it still reads the other. Nil operands are skipped.
func (c *check) apart(role string, t T, otherRole string, other T) {
	if c.err != nil || t == nil || other == nil || t.Len() == 0 || other.Len() == 0 {
		return
	}
	a, b := t.Addr(), other.Addr()
	if a < b+uintptr(other.Bytes()) && b < a+uintptr(t.Bytes()) {
		c.fail("%s %s and %s %s share memory", role, t.Name, otherRole, other.Name)
	}
}

// sameOrApart wants operands that are the same memory or do not overlap.
func (c *check) sameOrApart(role string, t T, otherRole string, other T) {
	if t != nil && other != nil && c.err == nil && t.Addr() != other.Addr() {
		c.apart(role, t, otherRole, other)
	}
}

// together wants both operands or neither.
func (c *check) together(role string, t T, otherRole string, other T) {
	if (t == nil) != (other == nil) {
		c.fail("%s and %s go together, one is missing", role, otherRole)
	}
}

// activation refuses an unknown function.
func (c *check) activation(act device.Activation) {
	if act > device.GELUTanh {
		c.fail("activation number %d is not known", uint8(act))
	}
}

// fold is t's shape as a matrix: all dimensions but the last, and the last.
func fold(t T) (rows, cols int) {
	s := t.Shape()
	if len(s) == 0 {
		return 1, 1
	}
	return tensor.Count(s[:len(s)-1]), s[len(s)-1]
}
