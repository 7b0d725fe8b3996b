package job

// The schema of the job file: every key, its place in a Job, what it allows and
// what it means. Decoding, writing and docs/job-file.md all follow this table.

// A job either trains a model of ours or launches a program.
const (
	training  = "training"
	launching = "program"
)

func jobSection(j *Job, kind string) *section {
	only := []string{training}
	return &section{kind: &kind, noun: "a job with a", fields: []field{
		{key: "name", val: jobName{&j.Name}, def: "the file's name", doc: "what the run is called"},
		{key: "launch", val: launchSection(&j.Launch), doc: "how many ranks; flags of the same name win"},
		{key: "device", val: oneOf(&j.Device, "auto", "cpu", "cuda"), doc: "where ranks compute; auto takes the best that the binary and the machine have"},
		{key: "precision", only: only, val: oneOf(&j.Precision, "fp32", "tf32", "bf16", "fp16"), doc: "arithmetic of the forward and backward pass; tf32 only on a GPU"},
		{key: "model", only: only, need: true, val: optional[Model]{&j.Model, newModel, modelSection}, doc: "what is trained"},
		{key: "data", only: only, need: true, val: optional[Data]{&j.Data, newData, dataSection}, doc: "the samples"},
		{key: "loader", only: only, val: loaderSection(&j.Loader), doc: "how batches are made ahead of time"},
		{key: "sampler", only: only, val: samplerSection(&j.Sampler), doc: "which rank takes which sample; PyTorch's DistributedSampler"},
		{key: "train", only: only, need: true, val: optional[Train]{&j.Train, newTrain, trainSection}, doc: "how long, and in what portions"},
		{key: "loss", only: only, val: oneOf(&j.Loss, "cross_entropy"), doc: "what is minimised, as the mean over a rank's batch"},
		{key: "optimizer", only: only, need: true, val: optimizerSection(&j.Optimizer), doc: "the update rule, with PyTorch's arithmetic"},
		{key: "schedule", only: only, val: scheduleSection(&j.Schedule), doc: "the learning rate over the steps"},
		{key: "ddp", only: only, val: ddpSection(&j.DDP), doc: "exchange of gradients"},
		{key: "amp", only: only, val: ampSection(&j.AMP), doc: "dynamic loss scaling of fp16"},
		{key: "checkpoint", only: only, val: checkpointSection(&j.Checkpoint), doc: "when and where state is saved"},
		{key: "debug", val: debugSection(&j.Debug), doc: "checks"},
		{key: "program", only: []string{launching}, val: optional[Program]{&j.Program, newProgram, programSection}, doc: "a program to launch, instead of model, data and train"},
	}}
}

func launchSection(l *Launch) *section {
	return &section{fields: []field{
		{key: "nproc_per_node", val: ranks{&l.NprocPerNode}, doc: "ranks on each node"},
		{key: "nnodes", val: nodes{&l.NNodes}, doc: "nodes; a range is elastic"},
		{key: "max_restarts", val: from0(&l.MaxRestarts), doc: "how often a failed attempt is repeated"},
	}}
}

func modelSection(m *Model) *section {
	transformer := []string{"gpt2", "bert"}
	return &section{kind: &m.Type, noun: "model.type", fill: func() { fillModel(m) }, fields: []field{
		{key: "type", need: true, val: oneOf(&m.Type, "sequential", "gpt2", "bert", "resnet"), doc: "sequential: the layers below, one after the other. gpt2: names and layouts of the published checkpoints"},
		{key: "layers", need: true, val: layerList{m}, doc: "sequential: a list of layers; else the number of blocks"},
		{key: "heads", need: true, only: transformer, val: from1(&m.Heads), doc: "attention heads of a block; they divide width"},
		{key: "width", need: true, only: transformer, val: from1(&m.Width), doc: "size of a token's vector"},
		{key: "context", need: true, only: transformer, val: from1(&m.Context), doc: "tokens a sequence may have"},
		{key: "vocab", need: true, only: transformer, val: from1(&m.Vocab), doc: "number of different tokens; 256 for bytes"},
		{key: "tie_head", only: []string{"gpt2"}, val: truth{&m.TieHead}, doc: "the output layer shares the weight of the token embedding"},
		{key: "dropout", only: transformer, omit: true, val: fraction(&m.Dropout), doc: "probability of zeroing, in embedding, attention and perceptron"},
		{key: "init", val: initSection(&m.Init), doc: "how parameters start"},
	}}
}

func initSection(i *Init) *section {
	return &section{fields: []field{
		{key: "seed", val: seed{&i.Seed}, doc: "of the starting values"},
		{key: "from", omit: true, val: path{at: &i.From}, doc: "a safetensors file with starting values, tensors named as in a PyTorch state_dict"},
	}}
}

// layerSection has the keys of every op; layer defaults are PyTorch's.
func layerSection(l *Layer) *section {
	weighted := []string{"linear", "conv2d"}
	pools := []string{"maxpool2d", "avgpool2d"}
	norms := []string{"batchnorm2d", "layernorm"}
	return &section{kind: &l.Op, noun: "op", fill: func() { fillLayer(l) }, finish: func(*decoder, string) { finishLayer(l) }, fields: []field{
		{key: "op", need: true, val: oneOf(&l.Op, layerOps()...), doc: "what the layer does"},
		{key: "name", omit: true, val: tensorName{&l.Name}, def: "its number", doc: "gives the tensor names: fc1.weight, fc1.bias"},
		{key: "in", need: true, only: weighted, omit: true, val: from1(&l.In), doc: "features (linear) or channels (conv2d) coming in"},
		{key: "out", need: true, only: weighted, omit: true, val: from1(&l.Out), doc: "features or channels going out"},
		{key: "kernel", need: true, only: append([]string{"conv2d"}, pools...), omit: true, val: from1(&l.Kernel), doc: "rows and columns of the window"},
		{key: "stride", only: append([]string{"conv2d"}, pools...), omit: true, val: from1(&l.Stride), def: "1 (conv2d), kernel (pools)", doc: "step of the window"},
		{key: "padding", only: []string{"conv2d"}, val: from0(&l.Padding), doc: "rows and columns of zeros on each side"},
		{key: "bias", only: weighted, val: truth{&l.Bias}, def: "true", doc: "whether a bias is added"},
		{key: "features", need: true, only: norms, omit: true, val: from1(&l.Features), doc: "channels (batchnorm2d) or size of the last dimension (layernorm)"},
		{key: "eps", only: norms, val: positive(&l.Eps), def: "1e-05", doc: "added to the variance"},
		{key: "momentum", only: []string{"batchnorm2d"}, val: real{&l.Momentum, "a number from 0 to 1", func(v float64) bool { return v >= 0 && v <= 1 }}, def: "0.1", doc: "share of the new batch in the running statistics"},
		{key: "p", only: []string{"dropout"}, val: fraction(&l.P), def: "0.5", doc: "probability of zeroing"},
		{key: "shape", need: true, only: []string{"reshape"}, val: sizes{&l.Shape}, doc: "the new shape of a sample, without the batch"},
		{key: "vocab", need: true, only: []string{"embedding"}, omit: true, val: from1(&l.Vocab), doc: "number of different tokens"},
		{key: "width", need: true, only: []string{"embedding"}, omit: true, val: from1(&l.Width), doc: "size of a token's vector"},
	}}
}

func layerOps() []string {
	return []string{
		"linear", "conv2d", "batchnorm2d", "layernorm", "relu", "gelu", "maxpool2d", "avgpool2d",
		"global_avgpool", "dropout", "flatten", "reshape", "embedding",
	}
}

func dataSection(d *Data) *section {
	files := []string{"csv", "tokens", "bytes"}
	tokens := []string{"tokens", "bytes"}
	return &section{kind: &d.Type, noun: "data.type", fields: []field{
		{key: "type", need: true, val: oneOf(&d.Type, "csv", "idx", "tokens", "bytes", "image_folder", "npy", "synthetic"), doc: "csv: a table. idx: MNIST-like files. tokens: .bin files of numbers. bytes: any file, a byte a token. synthetic: made from a seed. Files may be gzip"},
		{key: "path", omit: true, only: append([]string{"idx", "image_folder", "npy"}, files...), val: path{at: &d.Path}, def: "required; idx: optional", doc: "the file; tokens: also a pattern of files; idx: the folder of the files"},
		{key: "csv", need: true, only: []string{"csv"}, val: optional[CSV]{&d.CSV, newCSV, csvSection}, doc: "the columns of the table"},
		{key: "idx", need: true, only: []string{"idx"}, val: optional[IDX]{&d.IDX, newIDX, func(x *IDX) *section { return idxSection(x, &d.Path) }}, doc: "the files of the set"},
		{key: "block", need: true, only: tokens, omit: true, val: from1(&d.Block), doc: "tokens of a sample: sample i is at i*block and one longer, the last being a target only"},
		{key: "dtype", only: []string{"tokens"}, omit: true, val: oneOf(&d.DType, "uint16", "uint32"), doc: "the numbers of a file without a header"},
		{key: "synthetic", need: true, only: []string{"synthetic"}, val: optional[Synth]{&d.Synthetic, newSynth, synthSection}, doc: "what the samples are like"},
		{key: "eval_path", omit: true, only: files, val: path{at: &d.EvalPath}, doc: "evaluation samples in a file of their own"},
		{key: "train_rows", only: append([]string{"idx", "image_folder", "npy"}, files...), val: rows{&d.TrainRows}, def: "all", doc: "samples to train on"},
		{key: "eval_rows", only: append([]string{"idx", "image_folder", "npy"}, files...), val: rows{&d.EvalRows}, def: "none; all of eval_path", doc: "samples to evaluate on, of the evaluation file where there is one"},
	}}
}

func csvSection(c *CSV) *section {
	return &section{fields: []field{
		{key: "features", need: true, val: rows{&c.Features}, doc: `columns, counted from 0: "0:64" are the first 64`},
		{key: "label", need: true, val: from0(&c.Label), doc: "the column with the class, a whole number from 0"},
		{key: "scale", val: real{&c.Scale, "a number other than 0", func(v float64) bool { return v != 0 }}, doc: "features are multiplied by it"},
		{key: "header", val: truth{&c.Header}, doc: "the first line names the columns"},
	}}
}

func idxSection(x *IDX, folder *string) *section {
	return &section{fields: []field{
		{key: "images", need: true, val: path{at: &x.Images, within: folder}, doc: "file in data.path"},
		{key: "labels", need: true, val: path{at: &x.Labels, within: folder}, doc: "file in data.path"},
		{key: "eval_images", omit: true, val: path{at: &x.EvalImages, within: folder}, doc: "file in data.path"},
		{key: "eval_labels", omit: true, val: path{at: &x.EvalLabels, within: folder}, doc: "file in data.path"},
		{key: "scale", val: real{&x.Scale, "a number other than 0", func(v float64) bool { return v != 0 }}, def: "1/255", doc: "pixels are multiplied by it"},
		{key: "mean", val: real{&x.Mean, "a number", func(float64) bool { return true }}, doc: "then subtracted"},
		{key: "std", val: positive(&x.Std), doc: "then divided by"},
	}}
}

func synthSection(s *Synth) *section {
	return &section{fields: []field{
		{key: "samples", need: true, val: from1(&s.Samples), doc: "to train on"},
		{key: "eval_samples", omit: true, val: from0(&s.EvalSamples), doc: "to evaluate on"},
		{key: "shape", need: true, val: sizes{&s.Shape}, doc: "features of a sample; with tokens: [length]"},
		{key: "classes", need: true, val: from1(&s.Classes), doc: "labels are 0 to classes-1; with tokens: the vocabulary"},
		{key: "seed", val: seed{&s.Seed}, doc: "of the samples"},
		{key: "tokens", val: truth{&s.Tokens}, doc: "samples are token sequences"},
	}}
}

func loaderSection(l *Loader) *section {
	return &section{fields: []field{
		{key: "workers", val: whole{&l.Workers, 0, 1024}, doc: "goroutines that make batches; 0: in the training loop itself"},
		{key: "prefetch_factor", val: whole{&l.PrefetchFactor, 1, 1024}, doc: "batches that each worker makes ahead"},
		{key: "pin_memory", val: truth{&l.PinMemory}, doc: "batches in page-locked memory, for copies to a GPU"},
		{key: "persistent_workers", val: truth{&l.PersistentWorkers}, doc: "workers live on from epoch to epoch"},
		{key: "drop_last", val: truth{&l.DropLast}, doc: "leave out the last batch of an epoch when it is short"},
	}}
}

func samplerSection(s *Sampler) *section {
	return &section{fields: []field{
		{key: "shuffle", val: truth{&s.Shuffle}, doc: "a new order each epoch, from seed + epoch"},
		{key: "seed", val: seed{&s.Seed}, doc: "of the order"},
		{key: "drop_last", val: truth{&s.DropLast}, doc: "leave out the tail that does not fill all ranks, instead of repeating samples"},
	}}
}

func trainSection(t *Train) *section {
	return &section{finish: func(d *decoder, key string) { finishTrain(d, key, t) }, fields: []field{
		{key: "epochs", omit: true, val: from1(&t.Epochs), def: "this or steps", doc: "passes over the data"},
		{key: "steps", omit: true, val: from1(&t.Steps), def: "this or epochs", doc: "optimizer steps"},
		{key: "batch_size", need: true, val: from1(&t.BatchSize), doc: "samples of a batch, on each rank"},
		{key: "accumulate", val: from1(&t.Accumulate), doc: "batches whose gradients make one step"},
		{key: "clip_grad_norm", val: notNegative(&t.ClipGradNorm), doc: "largest norm of all gradients together; 0: no limit"},
		{key: "log_every", val: from0(&t.LogEvery), doc: "steps between lines of progress; 0: none"},
		{key: "eval_every", val: from0(&t.EvalEvery), def: "1; with steps: 0", doc: "epochs between evaluations, with steps: steps; 0: at the end only"},
	}}
}

func optimizerSection(o *Optimizer) *section {
	adams := []string{"adam", "adamw"}
	return &section{kind: &o.Type, noun: "optimizer.type", fill: func() { fillOptimizer(o) }, fields: []field{
		{key: "type", need: true, val: oneOf(&o.Type, "sgd", "adam", "adamw"), doc: "the rule"},
		{key: "lr", val: notNegative(&o.LR), def: "required; 0.001 (adam, adamw)", doc: "learning rate"},
		{key: "momentum", only: []string{"sgd"}, val: fraction(&o.Momentum), doc: "share of the last update kept"},
		{key: "weight_decay", val: notNegative(&o.WeightDecay), def: "0; 0.01 (adamw)", doc: "sgd, adam: added to the gradient times the weight; adamw: taken off the weight itself"},
		{key: "nesterov", only: []string{"sgd"}, val: truth{&o.Nesterov}, doc: "Nesterov's momentum"},
		{key: "betas", only: adams, val: betas{&o.Betas}, def: "[0.9, 0.999]", doc: "decay of the running mean of gradients, and of their squares"},
		{key: "eps", only: adams, val: positive(&o.Eps), def: "1e-08", doc: "added to the denominator"},
		{key: "decay", val: oneOf(&o.Decay, "all", "matrices"), doc: "which parameters weight_decay is for; matrices: those of two or more dimensions"},
	}}
}

func scheduleSection(s *Schedule) *section {
	step := []string{"step"}
	return &section{kind: &s.Type, noun: "schedule.type", fill: func() { fillSchedule(s) }, fields: []field{
		{key: "type", val: oneOf(&s.Type, "constant", "linear", "cosine", "step"), doc: "after the warm-up: constant stays at lr; linear and cosine fall to min_lr at the last step; step multiplies by gamma every step_size steps"},
		{key: "warmup_steps", val: from0(&s.WarmupSteps), doc: "steps in which the rate rises to lr"},
		{key: "min_lr", val: notNegative(&s.MinLR), doc: "where it ends"},
		{key: "step_size", need: true, only: step, omit: true, val: from1(&s.StepSize), doc: "steps between decays"},
		{key: "gamma", only: step, omit: true, val: positive(&s.Gamma), def: "0.1", doc: "factor of a decay"},
	}}
}

func ddpSection(d *DDP) *section {
	return &section{fields: []field{
		{key: "backend", val: oneOf(&d.Backend, "auto", "cpu", "nccl"), doc: "what carries the gradients; auto: the device's own"},
		{key: "bucket_cap_mb", val: positive(&d.BucketCapMB), doc: "MiB of gradients exchanged at once"},
		{key: "first_bucket_mb", val: positive(&d.FirstBucketMB), doc: "the same for the first bucket: a small one starts early"},
		{key: "gradient_compression", val: oneOf(&d.GradientCompression, "none", "fp16", "bf16"), doc: "number format on the wire"},
		{key: "broadcast_buffers", val: truth{&d.BroadcastBuffers}, doc: "rank 0's running statistics go to all before each forward pass"},
		{key: "find_unused_parameters", val: truth{&d.FindUnusedParameters}, doc: "accept parameters that take no part in a pass"},
	}}
}

func ampSection(a *AMP) *section {
	return &section{fields: []field{
		{key: "init_scale", val: positive(&a.InitScale), doc: "first loss scale"},
		{key: "growth_factor", val: real{&a.GrowthFactor, "a number above 1", func(v float64) bool { return v > 1 }}, doc: "factor after growth_interval steps without overflow"},
		{key: "backoff_factor", val: real{&a.BackoffFactor, "a number above 0, below 1", func(v float64) bool { return v > 0 && v < 1 }}, doc: "factor after an overflow"},
		{key: "growth_interval", val: from1(&a.GrowthInterval), doc: "steps"},
	}}
}

func checkpointSection(c *Checkpoint) *section {
	return &section{fields: []field{
		{key: "dir", omit: true, val: path{at: &c.Dir, empty: true}, def: "checkpoints in the run directory", doc: "folder"},
		{key: "every_steps", val: from0(&c.EverySteps), doc: "steps between checkpoints; 0: none by steps"},
		{key: "every_epochs", val: from0(&c.EveryEpochs), doc: "epochs between checkpoints; 0: none by epochs"},
		{key: "keep", val: from0(&c.Keep), doc: "newest checkpoints that stay; 0: all"},
		{key: "resume", val: path{at: &c.Resume, words: []string{"auto", "none"}}, doc: "auto: go on from the newest whole checkpoint, if there is one; none: start anew; or one checkpoint's folder"},
	}}
}

func debugSection(d *Debug) *section {
	return &section{fields: []field{
		{key: "barrier_timeout", val: duration{&d.BarrierTimeout}, doc: "after this long a barrier names the missing ranks; 0: off"},
		{key: "collectives", val: oneOf(&d.Collectives, "off", "summary", "detail"), doc: "record collective operations and compare them between ranks"},
		{key: "trace_samples", val: path{at: &d.TraceSamples, empty: true}, doc: `a file for each rank (%RANK% in its name), one line "epoch index" for each sample of an applied step`},
	}}
}

func programSection(p *Program) *section {
	return &section{fields: []field{
		{key: "command", need: true, val: command{&p.Command}, doc: "program and arguments, started once for each rank; found through PATH or from the current folder"},
		{key: "env", val: environment{&p.Env}, doc: "variables added to those of the launcher"},
	}}
}
