package data

import (
	"fmt"
	"math/rand/v2"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/tensor"
)

// synthetic is samples made of nothing but a seed: a function of the sample's
// number alone, so that every rank and every run sees the same.
type synthetic struct {
	cfg   job.Synth
	first int // number of sample 0
	n     int

	// A small set is drawn once, at the start: drawing costs more than copying.
	x         []float32
	tokens, y []int32
}

// keepBytes is the size up to which a set counts as small.
const keepBytes = 16 << 20

// newSynthetic draws the samples of a small set.
func newSynthetic(c job.Synth, first, n int) *synthetic {
	s := &synthetic{cfg: c, first: first, n: n}
	size := tensor.Count(c.Shape)
	if n > keepBytes/4/max(size, 1) {
		return s
	}
	if c.Tokens {
		s.tokens, s.y = make([]int32, n*size), make([]int32, n*size)
		for i := range n {
			s.draw(i, nil, s.tokens[i*size:(i+1)*size], s.y[i*size:(i+1)*size])
		}
		return s
	}
	s.x, s.y = make([]float32, n*size), make([]int32, n)
	for i := range n {
		s.draw(i, s.x[i*size:(i+1)*size], nil, s.y[i:i+1])
	}
	return s
}

func openSynthetic(d *job.Data) (*Sets, error) {
	c := d.Synthetic
	if c == nil {
		return nil, fmt.Errorf("data.synthetic: samples, shape and classes are missing")
	}
	if c.Samples < 1 || c.Classes < 1 || tensor.Count(c.Shape) < 1 || c.Tokens && len(c.Shape) != 1 {
		return nil, fmt.Errorf("data.synthetic: %d samples of shape %v with %d classes cannot be made", c.Samples, c.Shape, c.Classes)
	}
	all := newSynthetic(*c, 0, c.Samples)
	s := &Sets{}
	var err error
	if s.Train, s.Eval, err = split(d, "data.synthetic", all); err != nil {
		return nil, err
	}
	if c.EvalSamples > 0 {
		s.Eval = newSynthetic(*c, c.Samples, c.EvalSamples)
	}
	return s, nil
}

func (s *synthetic) Len() int { return s.n }

func (s *synthetic) Spec() Spec {
	if s.cfg.Tokens {
		return Spec{Tokens: s.cfg.Shape[0]}
	}
	return Spec{Features: s.cfg.Shape}
}

func (s *synthetic) Read(i int, x []float32, tokens, y []int32) error {
	switch {
	case s.x != nil:
		copy(x, s.x[i*len(x):])
		y[0] = s.y[i]
	case s.tokens != nil:
		copy(tokens, s.tokens[i*len(tokens):])
		copy(y, s.y[i*len(y):])
	default:
		s.draw(i, x, tokens, y)
	}
	return nil
}

// draw makes a sample. Features are normal; the label is the class whose mean
// was added to them, so that there is something to learn. Tokens count upwards
// from a random start with a random stride.
func (s *synthetic) draw(i int, x []float32, tokens, y []int32) {
	rng := rand.New(rand.NewPCG(uint64(s.cfg.Seed), uint64(s.first+i)))
	classes := s.cfg.Classes
	if s.cfg.Tokens {
		at, stride := rng.IntN(classes), 1+rng.IntN(3)
		for k := range tokens {
			tokens[k] = int32((at + k*stride) % classes)
			y[k] = int32((at + (k+1)*stride) % classes)
		}
		return
	}
	label := rng.IntN(classes)
	for k := range x {
		x[k] = float32(rng.NormFloat64())
	}
	x[label%tensor.Count(s.cfg.Shape)] += 3
	y[0] = int32(label)
}

func (s *synthetic) CheckClasses(classes int) error {
	if s.cfg.Classes > classes {
		return fmt.Errorf("data.synthetic.classes: %d, but the model has %d", s.cfg.Classes, classes)
	}
	return nil
}
