package data

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ddprun/ddprun/worker/tensor"
)

// Batch is consecutive samples of a rank's order. Its memory goes back to the
// loader with Release.
type Batch struct {
	X       []float32 // [N features...], nil for token data
	Tokens  []int32   // [N Tokens], nil for features
	Y       []int32   // [N] labels, or [N Tokens] targets
	N       int       // samples
	Indices []int     // their numbers in the set; belongs to the order, not to be changed

	pool *pool
}

// Release gives the batch's memory back for another batch; it is called once,
// and the batch must not be used after it.
func (b *Batch) Release() { b.pool.put(b) }

// pool keeps the memory of batches that are not in use. It is bounded by the
// number of batches that were ever in use at once.
type pool struct {
	spec  Spec
	width int // float32 features of a sample
	size  int // samples of a full batch
	free  chan *Batch
}

func newPool(spec Spec, size, depth int) *pool {
	return &pool{spec: spec, width: tensor.Count(spec.Features), size: size, free: make(chan *Batch, depth)}
}

// get is a batch with room for the samples of indices.
func (p *pool) get(indices []int) *Batch {
	var b *Batch
	select {
	case b = <-p.free:
	default:
		b = p.make()
	}
	b.N, b.Indices = len(indices), indices
	if p.spec.Tokens > 0 {
		n := b.N * p.spec.Tokens
		b.Tokens, b.Y = b.Tokens[:n], b.Y[:n]
		return b
	}
	b.X, b.Y = b.X[:b.N*p.width], b.Y[:b.N]
	return b
}

func (p *pool) make() *Batch {
	b := &Batch{pool: p}
	if p.spec.Tokens > 0 {
		b.Tokens, b.Y = make([]int32, p.size*p.spec.Tokens), make([]int32, p.size*p.spec.Tokens)
		return b
	}
	b.X, b.Y = make([]float32, p.size*p.width), make([]int32, p.size)
	return b
}

func (p *pool) put(b *Batch) {
	b.Indices = nil
	select {
	case p.free <- b:
	default:
	}
}

// errDropped is what becomes of a batch that nobody waits for any more.
var errDropped = errors.New("batch is not wanted any more")

// fill reads the samples of a batch. It keeps the number of the one being read
// in now, and gives up once dropped is set.
func (b *Batch) fill(s Set, now *atomic.Int64, dropped *atomic.Bool) error {
	n, width, length := s.Len(), b.pool.width, b.pool.spec.Tokens
	for k, i := range b.Indices {
		if dropped.Load() {
			return errDropped
		}
		if i < 0 || i >= n {
			return fmt.Errorf("loader: there is no sample %d, the set has %d", i, n)
		}
		now.Store(int64(i))
		var err error
		if length > 0 {
			err = s.Read(i, nil, b.Tokens[k*length:(k+1)*length], b.Y[k*length:(k+1)*length])
		} else {
			err = s.Read(i, b.X[k*width:(k+1)*width], nil, b.Y[k:k+1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
