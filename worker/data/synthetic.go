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
}

func openSynthetic(d *job.Data) (*Sets, error) {
	c := d.Synthetic
	if c == nil {
		return nil, fmt.Errorf("data.synthetic: samples, shape and classes are missing")
	}
	all := &synthetic{cfg: *c, n: c.Samples}
	s := &Sets{}
	var err error
	if s.Train, s.Eval, err = split(d, "data.synthetic", all); err != nil {
		return nil, err
	}
	if c.EvalSamples > 0 {
		s.Eval = &synthetic{cfg: *c, first: c.Samples, n: c.EvalSamples}
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

// Read draws a sample. Features are normal; the label is the class whose mean
// was added to them, so that there is something to learn. Tokens count upwards
// from a random start with a random stride.
func (s *synthetic) Read(i int, x []float32, tokens, y []int32) error {
	rng := rand.New(rand.NewPCG(uint64(s.cfg.Seed), uint64(s.first+i)))
	classes := s.cfg.Classes
	if s.cfg.Tokens {
		at, stride := rng.IntN(classes), 1+rng.IntN(3)
		for k := range tokens {
			tokens[k] = int32((at + k*stride) % classes)
			y[k] = int32((at + (k+1)*stride) % classes)
		}
		return nil
	}
	label := rng.IntN(classes)
	for k := range x {
		x[k] = float32(rng.NormFloat64())
	}
	x[label%tensor.Count(s.cfg.Shape)] += 3
	y[0] = int32(label)
	return nil
}

func (s *synthetic) CheckClasses(classes int) error {
	if s.cfg.Classes > classes {
		return fmt.Errorf("data.synthetic.classes: %d, but the model has %d", s.cfg.Classes, classes)
	}
	return nil
}
