package cpu

import (
	"math"

	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// CrossEntropy computes loss, hits and gradient of each row in one pass.
func (d *Device) CrossEntropy(a device.CrossEntropyArgs) error {
	c := d.check("cross-entropy")
	rows, n := c.crossEntropy(a)
	if c.err != nil {
		return c.err
	}
	var grad []float32
	if a.DLogits != nil {
		grad = floats(a.DLogits)
	} else {
		mem, err := d.workspace(n)
		if err != nil {
			return err
		}
		grad = mem
	}
	logits, targets := floats(a.Logits), a.Targets.Int32s()
	var loss float64
	var correct int32
	for r := range rows {
		out := grad
		if a.DLogits != nil {
			out = grad[r*n : (r+1)*n]
		}
		target := int(targets[r])
		if target < 0 {
			clear(out)
			continue
		}
		row := logits[r*n : (r+1)*n]
		at := row[target]
		first := firstAbove(row[:target], at) // before row is overwritten
		top, lse := simd.SoftmaxRow(out, row)
		loss += surprise(out[target], lse, at)
		if at == top && first {
			correct++
		}
		simd.Scale(out, a.Scale)
		out[target] -= a.Scale
	}
	if a.Loss != nil {
		floats(a.Loss)[0] += float32(loss)
	}
	if a.Correct != nil {
		a.Correct.Int32s()[0] += correct
	}
	return nil
}

// surprise is -log p of the target. lse-at loses the digits that the logits'
// size takes, so it serves only where p is too small.
func surprise(p, lse, at float32) float64 {
	if p > 1e-30 {
		return -math.Log(float64(p))
	}
	return float64(lse) - float64(at)
}

// firstAbove says whether at is larger than all that stand before it: of equal
// logits the first is the answer, as torch.argmax has it.
func firstAbove(before []float32, at float32) bool {
	for _, v := range before {
		if v >= at {
			return false
		}
	}
	return true
}

func (c *check) crossEntropy(a device.CrossEntropyArgs) (rows, n int) {
	if c.float("Logits", a.Logits) {
		rows, n = fold(a.Logits)
	}
	c.ints("Targets", a.Targets, rows)
	c.optVector("Loss", a.Loss, 1)
	if a.Correct != nil {
		c.ints("Correct", a.Correct, 1)
	}
	c.optMatrix("DLogits", a.DLogits, rows, n)
	if c.err != nil {
		return rows, n
	}
	for r, target := range a.Targets.Int32s() {
		if int(target) >= n {
			c.fail("target %d in row %d of %s is outside the %d classes", target, r, a.Targets.Name, n)
			return rows, n
		}
	}
	return rows, n
}
