package job

// Defaults are PyTorch's where PyTorch has the thing.

func newJob() *Job {
	return &Job{
		Launch:     Launch{NprocPerNode: "1", NNodes: "1"},
		Device:     "auto",
		Precision:  "fp32",
		Loader:     Loader{Workers: 2, PrefetchFactor: 2, PinMemory: true, PersistentWorkers: true},
		Sampler:    Sampler{Shuffle: true},
		Loss:       "cross_entropy",
		Optimizer:  Optimizer{Decay: "all"},
		Schedule:   Schedule{Type: "constant"},
		DDP:        DDP{Backend: "auto", BucketCapMB: 25, FirstBucketMB: 1, GradientCompression: "none", BroadcastBuffers: true},
		AMP:        AMP{InitScale: 65536, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000},
		Checkpoint: Checkpoint{EveryEpochs: 1, Keep: 3, Resume: "auto"},
		Debug:      Debug{Collectives: "off"},
	}
}

func newModel() *Model     { return &Model{} }
func newData() *Data       { return &Data{} }
func newCSV() *CSV         { return &CSV{Scale: 1} }
func newIDX() *IDX         { return &IDX{Scale: 1.0 / 255, Std: 1} }
func newSynth() *Synth     { return &Synth{} }
func newTrain() *Train     { return &Train{Accumulate: 1, LogEvery: 10, EvalEvery: 1} }
func newProgram() *Program { return &Program{} }

func fillModel(m *Model) { m.TieHead = m.Type == "gpt2" }

func fillOptimizer(o *Optimizer) {
	if o.Type == "adam" || o.Type == "adamw" {
		o.LR, o.Betas, o.Eps = 1e-3, [2]float64{0.9, 0.999}, 1e-8
	}
	if o.Type == "adamw" {
		o.WeightDecay = 0.01
	}
}

func fillSchedule(s *Schedule) {
	if s.Type == "step" {
		s.Gamma = 0.1
	}
}

func fillLayer(l *Layer) {
	switch l.Op {
	case "linear":
		l.Bias = true
	case "conv2d":
		l.Bias, l.Stride = true, 1
	case "batchnorm2d":
		l.Eps, l.Momentum = 1e-5, 0.1
	case "layernorm":
		l.Eps = 1e-5
	case "dropout":
		l.P = 0.5
	}
}

// finishLayer makes the windows of a pool lie side by side.
func finishLayer(l *Layer) {
	if l.Stride == 0 && (l.Op == "maxpool2d" || l.Op == "avgpool2d") {
		l.Stride = l.Kernel
	}
}

// finishTrain evaluates after each epoch, but not after each step unless asked.
func finishTrain(d *decoder, key string, t *Train) {
	if t.Steps > 0 && !d.has(join(key, "eval_every")) {
		t.EvalEvery = 0
	}
}
