package devicetest

import "github.com/ddprun/ddprun/worker/device"

// embeddingCase: rows of width n from a table, tokens rows to a sequence.
type embeddingCase struct{ rows, vocab, n, tokens int }

var embeddings = []embeddingCase{{1, 1, 1, 1}, {6, 4, 5, 3}, {64, 100, 33, 16}, {10, 3, 128, 10}}

func testEmbedding(s *suite) {
	for _, c := range embeddings {
		index := s.below(c.rows, c.vocab)
		table, tv := s.tensor("table", c.vocab, c.n)
		position, pv := s.tensor("position", c.tokens+2, c.n)
		a := device.EmbeddingArgs{Out: s.alloc("out", c.rows, c.n), Table: table, Index: s.ints("index", index, c.rows)}
		plain, placed := make([]float64, c.rows*c.n), make([]float64, c.rows*c.n)
		for r, i := range index {
			for j := range c.n {
				plain[r*c.n+j] = tv[i*c.n+j]
				placed[r*c.n+j] = tv[i*c.n+j] + pv[r%c.tokens*c.n+j]
			}
		}
		s.ok(s.dev.Embedding(a))
		s.near("plain", a.Out, plain)
		a.Position, a.Tokens = position, c.tokens
		s.ok(s.dev.Embedding(a))
		s.near("with positions", a.Out, placed)
	}
}

func testEmbeddingGrad(s *suite) {
	for _, c := range embeddings {
		index := s.below(c.rows, c.vocab)
		dout, g := s.tensor("dout", c.rows, c.n)
		table, tv := s.tensor("dtable", c.vocab, c.n)
		position, pv := s.tensor("dposition", c.tokens+2, c.n)
		add := func() {
			for r, i := range index {
				for j := range c.n {
					tv[i*c.n+j] += g[r*c.n+j]
				}
			}
		}
		a := device.EmbeddingGradArgs{DOut: dout, Index: s.ints("index", index, c.rows), DTable: table}
		add()
		s.ok(s.dev.EmbeddingGrad(a))
		s.near("table", table, tv)
		a.DPosition, a.Tokens = position, c.tokens
		add()
		for r := range c.rows {
			for j := range c.n {
				pv[r%c.tokens*c.n+j] += g[r*c.n+j]
			}
		}
		s.ok(s.dev.EmbeddingGrad(a))
		s.near("table again", table, tv)
		s.near("positions", position, pv)
	}
}

func testEmbeddingErrors(s *suite) {
	good := device.EmbeddingArgs{
		Out: s.alloc("out", 4, 3), Table: s.alloc("table", 5, 3), Index: s.ints("index", []int{0, 1, 2, 4}, 4),
		Position: s.alloc("position", 2, 3), Tokens: 2,
	}
	s.ok(s.dev.Embedding(good))
	try := func(change func(*device.EmbeddingArgs), words ...string) {
		s.Helper()
		a := good
		change(&a)
		s.refuses(s.dev.Embedding(a), append(words, "embedding")...)
	}
	for _, v := range []int{5, -1, 1 << 30} {
		bad := good
		bad.Out, bad.Index = s.alloc("out", 4, 3), s.ints("bytes", []int{0, 1, v, 2}, 4)
		if s.refuses(s.dev.Embedding(bad), "embedding", "bytes", "row 2", itoa(v)) {
			s.near("out after the error", bad.Out, constant(12, 77))
		}
		grad := device.EmbeddingGradArgs{DOut: good.Out, Index: bad.Index, DTable: s.alloc("dtable", 5, 3)}
		if s.refuses(s.dev.EmbeddingGrad(grad), "embedding", "bytes", "row 2", itoa(v)) {
			s.near("table's gradient after the error", grad.DTable, constant(15, 77))
		}
	}
	try(func(a *device.EmbeddingArgs) { a.Table = s.alloc("odd", 5, 4) }, "odd", "[5 4]", "3")
	try(func(a *device.EmbeddingArgs) { a.Position = s.alloc("odd", 1, 3) }, "odd", "1 row", "2")
	try(func(a *device.EmbeddingArgs) { a.Tokens = 0 }, "Tokens")
	try(func(a *device.EmbeddingArgs) { a.Index = s.ints("short", []int{0, 1}, 2) }, "short", "[2]", "[4]")
	try(func(a *device.EmbeddingArgs) { a.Index = s.alloc("floats", 4) }, "floats", "float32", "int32")
	try(func(a *device.EmbeddingArgs) { a.Table = s.foreign(5, 3) }, "alien", "cuda:63")
	try(func(a *device.EmbeddingArgs) { a.Table = nil }, "Table")
}
