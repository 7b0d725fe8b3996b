package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/ddp"
	"github.com/ddprun/ddprun/worker/device"
	devicecpu "github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is one rank with a model.
type replica struct {
	t     *testing.T
	group collective.Group
	dev   device.Device
	model nn.Model
	tape  *nn.Tape
	loss  nn.Loss
}

// onRanks runs f as each rank of a group over sockets, with the model that
// build gives the rank.
func onRanks(t *testing.T, size int, build func(rank int) *job.Model, f func(r *replica) error) []error {
	t.Helper()
	ctx := context.Background()
	srv, err := store.Listen(ctx, "127.0.0.1:0", "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for k := range size {
		wg.Go(func() {
			errs[k] = func() error {
				g, err := cpu.New(ctx, cpu.Config{Rank: k, Size: size, Store: srv.Local(), Token: "secret"})
				if err != nil {
					return err
				}
				defer g.Close()
				d, err := devicecpu.New(devicecpu.Options{Threads: 1})
				if err != nil {
					return err
				}
				defer d.Close()
				m, _, err := nn.Build(build(k), nn.Source{Features: []int{4}}, d)
				if err != nil {
					return err
				}
				r := &replica{t: t, group: g, dev: d, model: m, tape: nn.NewTape(d)}
				if r.loss.Sum, err = d.Alloc("loss", tensor.Float32, 1); err != nil {
					return err
				}
				err = errors.Join(d.Zero(r.loss.Sum), f(r))
				if err != nil {
					g.Abort(err)
				}
				return err
			}()
		})
	}
	wg.Wait()
	return errs
}

func perceptron(seed int64, hidden int) *job.Model {
	return &job.Model{Type: "sequential", Init: job.Init{Seed: seed}, Layers: []job.Layer{
		{Op: "linear", Name: "a", In: 4, Out: hidden, Bias: true},
		{Op: "relu"},
		{Op: "linear", Name: "b", In: hidden, Out: 3, Bias: true},
	}}
}

func bytesOf[T float32 | int32](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s))
}

// pass runs forward on samples that are the rank's own, with the loss gradient
// multiplied by scale.
func (r *replica) pass(micro int, scale float64) error {
	const n = 5
	x, y := make([]float32, n*4), make([]int32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i + 31*r.group.Rank() + 7*micro)))
	}
	for i := range y {
		y[i] = int32((i + r.group.Rank()) % 3)
	}
	in, err := r.dev.Alloc("x", tensor.Float32, n, 4)
	if err != nil {
		return err
	}
	targets, err := r.dev.Alloc("y", tensor.Int32, n)
	if err != nil {
		return err
	}
	if err := errors.Join(r.dev.Upload(in, bytesOf(x)), r.dev.Upload(targets, bytesOf(y))); err != nil {
		return err
	}
	r.tape.Train(1)
	nn.CrossEntropy(r.tape, r.model.Forward(r.tape, nn.Input{X: in, N: n}), targets, r.loss, float32(scale/n))
	return r.tape.Err()
}

func (r *replica) read(t *tensor.Tensor) []float32 {
	out := make([]float32, t.Len())
	if err := r.dev.Download(bytesOf(out), t); err != nil {
		r.t.Error(err)
	}
	return out
}

func (r *replica) grads() map[string][]float32 {
	m := map[string][]float32{}
	for _, p := range r.model.State().Params {
		m[p.Name] = r.read(p.Grad)
	}
	return m
}

// ownGrads is what one rank's backward alone gives, without any exchange.
func (r *replica) ownGrads(micros int) (map[string][]float32, error) {
	ps := r.model.State()
	ps.ClearGrads()
	r.tape.OnGrad = nil
	for m := range micros {
		if err := r.pass(m, 1); err != nil {
			return nil, err
		}
		if err := r.tape.Backward(); err != nil {
			return nil, err
		}
	}
	return r.grads(), nil
}

var small = ddp.Options{BucketCap: 1 << 20, FirstBucket: 64, Extra: 1}

// Three ranks with different gradients: each ends with the mean, and with the
// same bits. Micro-batches before the last are not exchanged.
func TestGradientsAreTheMeanOverTheRanks(t *testing.T) {
	const world, micros = 3, 2
	var mu sync.Mutex
	own, shared := make([]map[string][]float32, world), make([]map[string][]float32, world)
	errs := onRanks(t, world, func(int) *job.Model { return perceptron(1, 8) }, func(r *replica) error {
		ctx := context.Background()
		red, err := ddp.New(ctx, r.group, r.dev, r.model.State(), small)
		if err != nil {
			return err
		}
		alone, err := r.ownGrads(micros)
		if err != nil {
			return err
		}
		r.model.State().ClearGrads()
		slot, err := red.ClearExtra()
		if err != nil {
			return err
		}
		if err := r.dev.Upload(slot, bytesOf([]float32{float32(100 + r.group.Rank())})); err != nil {
			return err
		}
		for m := range micros {
			if err := r.pass(m, red.LossScale()); err != nil {
				return err
			}
			if err := red.Begin(r.tape, m == micros-1); err != nil {
				return err
			}
			if err := r.tape.Backward(); err != nil {
				return err
			}
		}
		if err := red.Finish(ctx); err != nil {
			return err
		}
		extra := make([]float32, world)
		if err := red.ReadExtra(extra); err != nil {
			return err
		}
		if fmt.Sprint(extra) != "[100 101 102]" {
			t.Errorf("rank %d: what travels behind the gradients is %v", r.group.Rank(), extra)
		}
		mu.Lock()
		defer mu.Unlock()
		own[r.group.Rank()], shared[r.group.Rank()] = alone, r.grads()
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for name := range own[0] {
		for i := range own[0][name] {
			want := 0.0
			for k := range world {
				want += float64(own[k][name][i]) / world
			}
			for k := range world {
				if got := shared[k][name][i]; got != shared[0][name][i] || math.Abs(float64(got)-want) > 1e-6 {
					t.Fatalf("%s[%d] on rank %d: %g, rank 0 has %g, the mean is %g", name, i, k, got, shared[0][name][i], want)
				}
			}
		}
	}
}

func TestParametersBecomeThoseOfRankZero(t *testing.T) {
	var mu sync.Mutex
	values := make([][]float32, 2)
	errs := onRanks(t, 2, func(rank int) *job.Model { return perceptron(int64(rank), 8) }, func(r *replica) error {
		before := r.read(r.model.State().FlatParams())
		if _, err := ddp.New(context.Background(), r.group, r.dev, r.model.State(), small); err != nil {
			return err
		}
		after := r.read(r.model.State().FlatParams())
		if r.group.Rank() == 0 && fmt.Sprint(before) != fmt.Sprint(after) {
			t.Error("rank 0's parameters changed")
		}
		mu.Lock()
		defer mu.Unlock()
		values[r.group.Rank()] = after
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(values[0]) != fmt.Sprint(values[1]) {
		t.Error("the ranks have different parameters")
	}
}

// A model of another shape is named on every rank, before anything is sent.
func TestModelsThatDiffer(t *testing.T) {
	errs := onRanks(t, 3, func(rank int) *job.Model { return perceptron(1, 8+rank/2) }, func(r *replica) error {
		_, err := ddp.New(context.Background(), r.group, r.dev, r.model.State(), small)
		return err
	})
	const want = "rank 0 and rank 2: parameter a.weight float32[8 4] against parameter a.weight float32[9 4]"
	for k, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v", k, err)
		}
	}
}

// A rank whose loss depends on nothing contributes zero when that is allowed,
// and is named when not.
func TestUnusedParameters(t *testing.T) {
	run := func(find bool) ([]error, []float32, []float32) {
		var mu sync.Mutex
		var own, got []float32
		errs := onRanks(t, 2, func(int) *job.Model { return perceptron(1, 8) }, func(r *replica) error {
			ctx := context.Background()
			opt := small
			opt.FindUnused = find
			red, err := ddp.New(ctx, r.group, r.dev, r.model.State(), opt)
			if err != nil {
				return err
			}
			alone, err := r.ownGrads(1)
			if err != nil {
				return err
			}
			r.model.State().ClearGrads()
			r.tape.Train(1)
			if r.group.Rank() == 0 {
				if err := r.pass(0, red.LossScale()); err != nil {
					return err
				}
			}
			if err := red.Begin(r.tape, true); err != nil {
				return err
			}
			if err := r.tape.Backward(); err != nil {
				return err
			}
			if err := red.Finish(ctx); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if r.group.Rank() == 0 {
				own = alone["b.weight"]
			} else {
				got = r.grads()["b.weight"]
			}
			if red.Unused(r.model.State().Params[0]) {
				t.Error("a parameter that rank 0 used counts as unused")
			}
			return nil
		})
		return errs, own, got
	}
	errs, own, got := run(true)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range own {
		if math.Abs(float64(got[i]-own[i]/2)) > 1e-6 {
			t.Errorf("b.weight[%d] on the rank that used nothing: %g, want half of %g", i, got[i], own[i])
		}
	}
	errs, _, _ = run(false)
	const want = "rank 1: the loss does not depend on a.weight, a.bias, b.weight, b.bias"
	for k, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v", k, err)
		}
	}
}

func TestBucketsHoldEveryParameterInReverse(t *testing.T) {
	errs := onRanks(t, 1, func(int) *job.Model { return perceptron(1, 8) }, func(r *replica) error {
		red, err := ddp.New(context.Background(), r.group, r.dev, r.model.State(), small)
		if err == nil && fmt.Sprint(red.Layout()) != "[[b.bias b.weight] [a.bias a.weight]]" {
			t.Errorf("buckets %v", red.Layout())
		}
		return err
	})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
}
