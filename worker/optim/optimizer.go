package optim

import (
	"fmt"

	"github.com/ddprun/ddprun/internal/job"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/nn"
	"github.com/ddprun/ddprun/worker/tensor"
)

// Optimizer holds the update rule and its state, one slot of each kind for
// each parameter.
type Optimizer struct {
	cfg    job.Optimizer
	dev    device.Device
	params []*nn.Param
	slots  []slot
	decay  []float32 // Adam kinds, per parameter
	steps  int
}

// slot is one kind of state, such as the momentum, for all parameters.
type slot struct {
	name  string // as torch's state_dict has it
	flat  *tensor.Tensor
	parts []*tensor.Tensor
}

// New makes the optimizer of a job over params, with zeroed state.
func New(cfg job.Optimizer, d device.Device, params []*nn.Param) (*Optimizer, error) {
	o := &Optimizer{cfg: cfg, dev: d, params: params}
	var names []string
	switch cfg.Type {
	case "sgd":
		if cfg.Momentum != 0 {
			names = []string{"momentum_buffer"}
		}
	case "adam", "adamw":
		names = []string{"exp_avg", "exp_avg_sq"}
		o.decay = decays(cfg, params)
	default:
		return nil, fmt.Errorf("optimizer.type: %s is not available", cfg.Type)
	}
	for _, name := range names {
		s, err := o.newSlot(name)
		if err != nil {
			return nil, err
		}
		o.slots = append(o.slots, s)
	}
	return o, nil
}

// decays is the weight decay of each parameter: with "matrices" only those of
// two or more dimensions have one.
func decays(cfg job.Optimizer, params []*nn.Param) []float32 {
	ds := make([]float32, len(params))
	for i, p := range params {
		if cfg.Decay != "matrices" || len(p.Shape) >= 2 {
			ds[i] = float32(cfg.WeightDecay)
		}
	}
	return ds
}

func (o *Optimizer) newSlot(name string) (slot, error) {
	total := 0
	for _, p := range o.params {
		total += p.Len()
	}
	s := slot{name: name}
	var err error
	if s.flat, err = o.dev.Alloc("optimizer "+name, tensor.Float32, total); err != nil {
		return s, err
	}
	if err := o.dev.Zero(s.flat); err != nil {
		return s, err
	}
	at := 0
	for _, p := range o.params {
		part, err := s.flat.Slice(at, p.Shape...)
		if err != nil {
			return s, err
		}
		part.Name = p.Name + "." + name
		s.parts = append(s.parts, part)
		at += p.Len()
	}
	return s, nil
}

// Steps is the number of updates made so far.
func (o *Optimizer) Steps() int { return o.steps }

// SetSteps continues from a number of updates, for a resumed run.
func (o *Optimizer) SetSteps(n int) { o.steps = n }

// State is the optimizer's tensors by name: "fc1.weight.exp_avg".
func (o *Optimizer) State() []*tensor.Tensor {
	var ts []*tensor.Tensor
	for _, s := range o.slots {
		ts = append(ts, s.parts...)
	}
	return ts
}

// Step updates every parameter that skip does not name with its gradient times
// gradScale, at learning rate lr.
func (o *Optimizer) Step(lr, gradScale float64, skip func(*nn.Param) bool) error {
	u := o.gather(skip)
	o.steps++
	switch o.cfg.Type {
	case "sgd":
		return o.sgd(u, lr, gradScale)
	default:
		return o.adam(u, lr, gradScale)
	}
}

// update is what one step touches.
type update struct {
	params, grads []*tensor.Tensor
	slots         [][]*tensor.Tensor
	decay         []float32
}

func (o *Optimizer) gather(skip func(*nn.Param) bool) update {
	u := update{slots: make([][]*tensor.Tensor, len(o.slots))}
	for i, p := range o.params {
		if skip != nil && skip(p) {
			continue
		}
		u.params, u.grads = append(u.params, p.Value), append(u.grads, p.Grad)
		for k, s := range o.slots {
			u.slots[k] = append(u.slots[k], s.parts[i])
		}
		if o.decay != nil {
			u.decay = append(u.decay, o.decay[i])
		}
	}
	return u
}

// sgd runs once for the parameters that decay and once for those that do not,
// when the job tells them apart.
func (o *Optimizer) sgd(u update, lr, gradScale float64) error {
	decayed, plain := u, update{}
	if o.cfg.Decay == "matrices" && o.cfg.WeightDecay != 0 {
		decayed, plain = u.split(func(t *tensor.Tensor) bool { return len(t.Shape()) >= 2 })
	}
	if err := o.sgdPart(decayed, lr, gradScale, o.cfg.WeightDecay); err != nil {
		return err
	}
	return o.sgdPart(plain, lr, gradScale, 0)
}

func (o *Optimizer) sgdPart(u update, lr, gradScale, decay float64) error {
	if len(u.params) == 0 {
		return nil
	}
	args := device.SGDArgs{
		Params: u.params, Grads: u.grads,
		LR: float32(lr), Mu: float32(o.cfg.Momentum), WeightDecay: float32(decay),
		// A zeroed buffer gives mu*0 + g = g, as torch's first step does.
		Nesterov: o.cfg.Nesterov, GradScale: float32(gradScale),
	}
	if len(u.slots) > 0 {
		args.Momentum = u.slots[0]
	}
	return o.dev.SGD(args)
}

func (u update) split(first func(*tensor.Tensor) bool) (a, b update) {
	a.slots, b.slots = make([][]*tensor.Tensor, len(u.slots)), make([][]*tensor.Tensor, len(u.slots))
	for i, p := range u.params {
		to := &b
		if first(p) {
			to = &a
		}
		to.params, to.grads = append(to.params, p), append(to.grads, u.grads[i])
		for k := range u.slots {
			to.slots[k] = append(to.slots[k], u.slots[k][i])
		}
	}
	return a, b
}

func (o *Optimizer) adam(u update, lr, gradScale float64) error {
	if len(u.params) == 0 {
		return nil
	}
	return o.dev.Adam(device.AdamArgs{
		Params: u.params, Grads: u.grads, Moment1: u.slots[0], Moment2: u.slots[1],
		LR: float32(lr), Beta1: float32(o.cfg.Betas[0]), Beta2: float32(o.cfg.Betas[1]), Eps: float32(o.cfg.Eps),
		WeightDecay: u.decay, Decoupled: o.cfg.Type == "adamw",
		Step: o.steps, GradScale: float32(gradScale),
	})
}

// Flat is each kind of state as one run of memory.
func (o *Optimizer) Flat() []*tensor.Tensor {
	ts := make([]*tensor.Tensor, 0, len(o.slots))
	for _, s := range o.slots {
		ts = append(ts, s.flat)
	}
	return ts
}
