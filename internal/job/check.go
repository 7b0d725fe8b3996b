package job

import "fmt"

// check finds contradictions between keys that are each fine on their own.
func (d *decoder) check(j *Job) {
	if j.Program != nil {
		return // nothing else of a program's job hangs together
	}
	d.checkDevice(j)
	d.checkTrain(j.Train)
	d.checkOptimizer(&j.Optimizer, &j.Schedule)
	d.checkData(j.Data)
	if j.Model == nil {
		return
	}
	switch j.Model.Type {
	case "gpt2":
		d.checkGPT2(j.Model, j.Data)
	case "sequential":
		d.checkLayers(j.Model.Layers, j.Data)
	}
}

func (d *decoder) checkDevice(j *Job) {
	if j.Device == "cpu" && j.DDP.Backend == "nccl" {
		d.refuse("ddp.backend", "nccl works between GPUs, device is cpu (wants auto or cpu)")
	}
}

func (d *decoder) checkTrain(t *Train) {
	if t == nil || !d.sound("train", "train.epochs", "train.steps") {
		return
	}
	switch epochs, steps := d.given["train.epochs"], d.given["train.steps"]; {
	case epochs != nil && steps != nil:
		first, later, key := epochs, steps, "train.steps"
		if steps.Line < epochs.Line || steps.Line == epochs.Line && steps.Column < epochs.Column {
			first, later, key = steps, epochs, "train.epochs"
		}
		d.report(later, key, "epochs and steps are both given, one of them is wanted (the other is in %s)", d.src.where(first))
	case epochs == nil && steps == nil:
		d.refuse("train.epochs", "missing: wants epochs or steps, a whole number from 1")
	}
}

func (d *decoder) checkOptimizer(o *Optimizer, s *Schedule) {
	if !d.has("optimizer") || !d.sound("optimizer", "optimizer.type", "optimizer.lr", "optimizer.momentum") {
		return
	}
	if o.Type == "sgd" && !d.has("optimizer.lr") {
		d.refuse("optimizer.lr", "missing: sgd has no default, wants %s", notNegative(nil).wants())
		return
	}
	if o.Nesterov && o.Momentum == 0 {
		d.refuse("optimizer.nesterov", "wants a momentum above 0")
	}
	if s.Type != "constant" && s.MinLR > o.LR && d.sound("schedule.min_lr", "schedule.type") {
		d.refuse("schedule.min_lr", "is %g, above optimizer.lr, which is %g", s.MinLR, o.LR)
	}
}

func (d *decoder) checkData(data *Data) {
	if data == nil || !d.sound("data", "data.type") {
		return
	}
	switch data.Type {
	case "csv", "tokens", "bytes":
		if data.Path == "" && d.sound("data.path") {
			d.refuse("data.path", "missing: wants a path")
		}
	case "idx":
		d.checkIDX(data.IDX)
	}
	if c := data.CSV; c != nil && c.Label >= c.Features.From && c.Label < c.Features.To && d.sound("data.csv.label", "data.csv.features") && d.has("data.csv.label") {
		d.refuse("data.csv.label", "column %d is also one of the features %s: the model would be shown the answer", c.Label, c.Features)
	}
	if s := data.Synthetic; s != nil && s.Tokens && len(s.Shape) > 1 {
		d.refuse("data.synthetic.shape", "a token sequence has one dimension, its length, got %v", s.Shape)
	}
}

func (d *decoder) checkIDX(x *IDX) {
	if x == nil || !d.sound("data.idx.eval_images", "data.idx.eval_labels") {
		return
	}
	switch {
	case x.EvalImages != "" && x.EvalLabels == "":
		d.refuse("data.idx.eval_labels", "missing: eval_images has its labels there")
	case x.EvalLabels != "" && x.EvalImages == "":
		d.refuse("data.idx.eval_images", "missing: eval_labels belongs to it")
	}
}

func (d *decoder) checkGPT2(m *Model, data *Data) {
	if m.Heads > 0 && m.Width%m.Heads != 0 {
		d.refuse("model.heads", "%d heads do not divide width %d", m.Heads, m.Width)
	}
	perBlock := product(12, m.Width, m.Width)
	if weights := product(m.Depth, perBlock) + product(m.Vocab, m.Width) + product(m.Context, m.Width); weights > maxElements {
		d.refuse("model.width", "the model has more than %d weights: no machine holds them", maxElements)
	}
	if data == nil || data.Type == "" {
		return
	}
	kind, length := samplesOf(data)
	if kind == features {
		d.refuse("data.type", "gpt2 reads tokens, %s has features (wants bytes, tokens, or synthetic with tokens: true)", data.Type)
	}
	if kind == tokens && m.Context > 0 && length > m.Context {
		d.refuse(lengthKey(data), "is %d tokens, model.context allows %d", length, m.Context)
	}
}

// lengthKey is where the length of token samples stands.
func lengthKey(data *Data) string {
	if data.Synthetic != nil {
		return "data.synthetic.shape"
	}
	return "data.block"
}

// maxElements is more than any machine's memory: sizes below it can be
// multiplied and added without overflow.
const maxElements = 1 << 40

// product multiplies sizes; what is larger than maxElements becomes just that
// and one.
func product(sizes ...int) int {
	p := 1
	for _, s := range sizes {
		if s > 0 && p > maxElements/s {
			return maxElements + 1
		}
		p *= s
	}
	return p
}

// sampleKind is what a model gets for a sample.
type sampleKind int

const (
	unknown  sampleKind = iota
	features            // numbers
	tokens              // a sequence
)

// samplesOf tells what the samples of a data section are, and the length of
// token sequences (0: not known).
func samplesOf(data *Data) (sampleKind, int) {
	switch {
	case data == nil:
		return unknown, 0
	case data.Type == "bytes" || data.Type == "tokens":
		return tokens, data.Block
	case data.Synthetic != nil && data.Synthetic.Tokens:
		if len(data.Synthetic.Shape) == 1 {
			return tokens, data.Synthetic.Shape[0]
		}
		return tokens, 0
	case data.Type == "csv" || data.Type == "idx" || data.Synthetic != nil:
		return features, 0
	}
	return unknown, 0
}

// key of a layer.
func layerKey(i int, name string) string { return fmt.Sprintf("model.layers.%d.%s", i, name) }
