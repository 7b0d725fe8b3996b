package nn

import (
	"fmt"
	"math"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
)

// gpt2 is the published GPT-2: learned positions, pre-norm blocks, tanh GELU.
// Tensor names and layouts are those of its checkpoints.
type gpt2 struct {
	ps      *Parameters
	embed   embedding
	blocks  []*gptBlock
	last    *layerNorm
	head    linear
	heads   int
	dropout float32
}

// gptBlock is attention and a two-layer perceptron, each behind a layer norm
// and around a residual connection.
type gptBlock struct {
	name      string
	ln1, ln2  *layerNorm
	qkv, proj linear
	up, down  linear
}

func newGPT2(ps *Parameters, m *job.Model, src Source) (Model, int, error) {
	if src.Length == 0 {
		return nil, 0, fmt.Errorf("model gpt2 reads tokens (data.type bytes, tokens, or synthetic with tokens: true), the data has features of shape %v", src.Features)
	}
	if src.Length > m.Context {
		return nil, 0, fmt.Errorf("data.block is %d tokens, model.context allows %d", src.Length, m.Context)
	}
	g := &gpt2{ps: ps, heads: m.Heads, dropout: float32(m.Dropout)}
	g.embed = embedding{
		table:    ps.param("wte.weight", normal(0.02), m.Vocab, m.Width),
		position: ps.param("wpe.weight", normal(0.02), m.Context, m.Width),
	}
	for i := range m.Depth {
		g.blocks = append(g.blocks, newGPTBlock(ps, fmt.Sprintf("h.%d", i), m.Width, m.Depth))
	}
	g.last = newLayerNorm(ps, "ln_f", m.Width, 1e-5)
	g.head = linear{weight: g.embed.table, transposed: true}
	if !m.TieHead {
		g.head.weight = ps.param("lm_head.weight", normal(0.02), m.Vocab, m.Width)
	}
	return g, m.Vocab, nil
}

func newGPTBlock(ps *Parameters, name string, width, depth int) *gptBlock {
	b := &gptBlock{name: name}
	// GPT-2 scales the projections that end in the residual stream by
	// 1/sqrt(number of residual additions).
	residual := normal(0.02 / math.Sqrt(2*float64(depth)))
	b.ln1 = newLayerNorm(ps, name+".ln_1", width, 1e-5)
	b.qkv = conv1d(ps, name+".attn.c_attn", width, 3*width, normal(0.02))
	b.proj = conv1d(ps, name+".attn.c_proj", width, width, residual)
	b.ln2 = newLayerNorm(ps, name+".ln_2", width, 1e-5)
	b.up = conv1d(ps, name+".mlp.c_fc", width, 4*width, normal(0.02))
	b.up.act = device.GELUTanh
	b.down = conv1d(ps, name+".mlp.c_proj", 4*width, width, residual)
	return b
}

// conv1d is GPT-2's name for a linear layer whose weight is [in out].
func conv1d(ps *Parameters, name string, in, out int, weight Initializer) linear {
	return linear{
		weight: ps.param(name+".weight", weight, in, out),
		bias:   ps.param(name+".bias", constant(0), out),
	}
}

func (g *gpt2) State() *Parameters { return g.ps }

func (g *gpt2) Forward(t *Tape, in Input) *Var {
	x := dropout(t, "embd", g.embed.forward(t, in.Tokens, in.Length), g.dropout)
	normed := g.firstNorm().forward(t, x)
	for i, b := range g.blocks {
		a := attention(t, b.name+".attn", b.qkv.forward(t, normed), in.N, in.Length, g.heads)
		a = dropout(t, b.name+".attn", b.proj.forward(t, a), g.dropout)
		x, normed = b.ln2.addForward(t, x, a)
		m := b.down.forward(t, b.up.forward(t, normed))
		m = dropout(t, b.name+".mlp", m, g.dropout)
		x, normed = g.normAfter(i).addForward(t, x, m)
	}
	return g.head.forward(t, normed)
}

func (g *gpt2) firstNorm() *layerNorm {
	if len(g.blocks) == 0 {
		return g.last
	}
	return g.blocks[0].ln1
}

// normAfter is the layer norm that follows block i.
func (g *gpt2) normAfter(i int) *layerNorm {
	if i+1 < len(g.blocks) {
		return g.blocks[i+1].ln1
	}
	return g.last
}
