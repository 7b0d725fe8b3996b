package cpu

import (
	"github.com/ddprun/ddprun/internal/simd"
	"github.com/ddprun/ddprun/worker/device"
)

// Embedding gathers rows of the table and adds the rows' positions.
func (d *Device) Embedding(a device.EmbeddingArgs) error {
	c := d.check("embedding")
	rows, n := c.embedding("Out", a.Out, a.Index, "Table", a.Table, "Position", a.Position, a.Tokens)
	if c.err != nil {
		return c.err
	}
	out, table, position := floats(a.Out), floats(a.Table), floats(a.Position)
	for r, i := range a.Index.Int32s()[:rows] {
		dst, src := out[r*n:(r+1)*n], table[int(i)*n:(int(i)+1)*n]
		if position == nil {
			copy(dst, src)
			continue
		}
		p := r % a.Tokens
		simd.Add(dst, src, position[p*n:(p+1)*n])
	}
	return nil
}

// EmbeddingGrad adds rows of DOut into the table's and the positions' gradient.
func (d *Device) EmbeddingGrad(a device.EmbeddingGradArgs) error {
	c := d.check("embedding gradient")
	rows, n := c.embedding("DOut", a.DOut, a.Index, "DTable", a.DTable, "DPosition", a.DPosition, a.Tokens)
	if c.err != nil {
		return c.err
	}
	dout, table, position := floats(a.DOut), floats(a.DTable), floats(a.DPosition)
	for r, i := range a.Index.Int32s()[:rows] {
		src := dout[r*n : (r+1)*n]
		simd.AddTo(table[int(i)*n:(int(i)+1)*n], src)
		if position != nil {
			p := r % a.Tokens
			simd.AddTo(position[p*n:(p+1)*n], src)
		}
	}
	return nil
}

// embedding checks both directions, which have the same shapes.
func (c *check) embedding(rowsRole string, out, index T, tableRole string, table T, posRole string, position T, tokens int) (rows, n int) {
	if c.float(rowsRole, out) {
		rows, n = fold(out)
	}
	c.ints("Index", index, rows)
	vocab := c.tableOf(tableRole, table, n)
	if position != nil {
		c.positive("Tokens", tokens)
		if have := c.tableOf(posRole, position, n); c.err == nil && have < tokens {
			c.fail("%s %s has %d rows, Tokens is %d", posRole, position.Name, have, tokens)
		}
	}
	if c.err != nil {
		return rows, n
	}
	for r, i := range index.Int32s() {
		if i < 0 || int(i) >= vocab {
			c.fail("index %d in row %d of %s is outside the %d rows of %s", i, r, index.Name, vocab, table.Name)
			break
		}
	}
	return rows, n
}

// tableOf wants a matrix of n columns and returns its rows.
func (c *check) tableOf(role string, t T, n int) int {
	if !c.float(role, t) {
		return 0
	}
	rows, cols := fold(t)
	if cols != n {
		c.fail("%s %s is %v, want %d columns", role, t.Name, t.Shape(), n)
	}
	return rows
}
