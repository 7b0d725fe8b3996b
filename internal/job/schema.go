package job

import "time"

// Job is a whole job file with defaults filled in. Field order is the order of
// the written file.
type Job struct {
	Name       string     `yaml:"name"`
	Launch     Launch     `yaml:"launch"`
	Device     string     `yaml:"device"`    // auto | cpu | cuda
	Precision  string     `yaml:"precision"` // fp32 | tf32 | bf16 | fp16
	Model      *Model     `yaml:"model,omitempty"`
	Data       *Data      `yaml:"data,omitempty"`
	Loader     Loader     `yaml:"loader"`
	Sampler    Sampler    `yaml:"sampler"`
	Train      *Train     `yaml:"train,omitempty"`
	Loss       string     `yaml:"loss"` // cross_entropy
	Optimizer  Optimizer  `yaml:"optimizer"`
	Schedule   Schedule   `yaml:"schedule"`
	DDP        DDP        `yaml:"ddp"`
	AMP        AMP        `yaml:"amp"`
	Checkpoint Checkpoint `yaml:"checkpoint"`
	Debug      Debug      `yaml:"debug"`
	Program    *Program   `yaml:"program,omitempty"` // instead of model, data, train
}

// Launch is what the launcher needs; flags of the same name win over it.
type Launch struct {
	NprocPerNode string `yaml:"nproc_per_node"` // a whole number, or auto | cpu | gpu
	NNodes       string `yaml:"nnodes"`         // N or MIN:MAX
	MaxRestarts  int    `yaml:"max_restarts"`
}

// Model says what is trained. Layers belongs to sequential; Layers of the
// other types is a number, held in Depth.
type Model struct {
	Type    string  `yaml:"type"`             // sequential | gpt2 | bert | resnet
	Layers  []Layer `yaml:"layers,omitempty"` // sequential
	Depth   int     `yaml:"-"`                // "layers: N" of gpt2, bert and resnet
	Heads   int     `yaml:"heads,omitempty"`
	Width   int     `yaml:"width,omitempty"`
	Context int     `yaml:"context,omitempty"` // tokens a sequence may have
	Vocab   int     `yaml:"vocab,omitempty"`
	TieHead bool    `yaml:"tie_head"` // gpt2; default true
	Dropout float64 `yaml:"dropout,omitempty"`
	Init    Init    `yaml:"init"`
}

// Layer is one step of a sequential model. Which fields an op has, and which
// of them it must have, stands in layerOps.
type Layer struct {
	Op       string
	Name     string
	In       int     // linear, conv2d
	Out      int     // linear, conv2d
	Bias     bool    // linear, conv2d; default true
	Kernel   int     // conv2d, maxpool2d, avgpool2d
	Stride   int     // conv2d: 1; pools: kernel
	Padding  int     // conv2d: 0
	Features int     // batchnorm2d (channels), layernorm (last dimension)
	Eps      float64 // 1e-5
	Momentum float64 // batchnorm2d: 0.1
	P        float64 // dropout: 0.5
	Shape    []int   // reshape: without the batch
	Vocab    int     // embedding
	Width    int     // embedding
}

// Init says how parameters start.
type Init struct {
	Seed int64  `yaml:"seed"`
	From string `yaml:"from,omitempty"` // a safetensors file; names as in a PyTorch state_dict
}

// Data names the samples.
type Data struct {
	Type      string   `yaml:"type"` // csv | idx | tokens | bytes | image_folder | npy | synthetic
	Path      string   `yaml:"path,omitempty"`
	CSV       *CSV     `yaml:"csv,omitempty"`
	IDX       *IDX     `yaml:"idx,omitempty"`
	Block     int      `yaml:"block,omitempty"` // tokens, bytes: context length
	DType     string   `yaml:"dtype,omitempty"` // tokens without a header: uint16 | uint32
	Synthetic *Synth   `yaml:"synthetic,omitempty"`
	EvalPath  string   `yaml:"eval_path,omitempty"` // evaluation samples in a file of their own
	TrainRows RowRange `yaml:"train_rows,omitempty"`
	EvalRows  RowRange `yaml:"eval_rows,omitempty"`
}

// CSV tells which columns of a table are used.
type CSV struct {
	Features RowRange `yaml:"features"` // columns "from:to", to excluded
	Label    int      `yaml:"label"`    // column
	Scale    float64  `yaml:"scale"`    // features are multiplied by it; default 1
	Header   bool     `yaml:"header"`   // the first line is not a sample
}

// IDX names the files of an MNIST-like set; Data.Path is their folder.
type IDX struct {
	Images     string  `yaml:"images"`
	Labels     string  `yaml:"labels"`
	EvalImages string  `yaml:"eval_images,omitempty"`
	EvalLabels string  `yaml:"eval_labels,omitempty"`
	Scale      float64 `yaml:"scale"` // pixels are multiplied by it; default 1/255
	Mean       float64 `yaml:"mean"`  // then (x-mean)/std; defaults 0 and 1
	Std        float64 `yaml:"std"`
}

// Synth describes samples made from a seed.
type Synth struct {
	Samples     int   `yaml:"samples"`
	EvalSamples int   `yaml:"eval_samples,omitempty"`
	Shape       []int `yaml:"shape"`   // features of a sample
	Classes     int   `yaml:"classes"` // labels are 0..classes-1
	Seed        int64 `yaml:"seed"`
	Tokens      bool  `yaml:"tokens,omitempty"` // samples are token sequences of length shape[0], vocabulary classes
}

// RowRange is "from:to", to excluded; the zero value means all.
type RowRange struct {
	From, To int
	Set      bool
}

// Loader feeds batches.
type Loader struct {
	Workers           int  `yaml:"workers"`
	PrefetchFactor    int  `yaml:"prefetch_factor"`
	PinMemory         bool `yaml:"pin_memory"`
	PersistentWorkers bool `yaml:"persistent_workers"`
	DropLast          bool `yaml:"drop_last"`
}

// Sampler orders and shards samples.
type Sampler struct {
	Shuffle  bool  `yaml:"shuffle"`
	Seed     int64 `yaml:"seed"`
	DropLast bool  `yaml:"drop_last"`
}

// Train is how long and in what portions.
type Train struct {
	Epochs       int     `yaml:"epochs,omitempty"`
	Steps        int     `yaml:"steps,omitempty"` // instead of epochs
	BatchSize    int     `yaml:"batch_size"`      // per rank
	Accumulate   int     `yaml:"accumulate"`      // micro-batches a step
	ClipGradNorm float64 `yaml:"clip_grad_norm"`  // 0: off
	LogEvery     int     `yaml:"log_every"`       // steps
	EvalEvery    int     `yaml:"eval_every"`      // epochs; with steps: steps. 0: at the end only
}

// Optimizer is the update rule.
type Optimizer struct {
	Type        string     `yaml:"type"` // sgd | adam | adamw
	LR          float64    `yaml:"lr"`
	Momentum    float64    `yaml:"momentum"`
	WeightDecay float64    `yaml:"weight_decay"`
	Nesterov    bool       `yaml:"nesterov"`
	Betas       [2]float64 `yaml:"betas,flow"`
	Eps         float64    `yaml:"eps"`
	Decay       string     `yaml:"decay"` // all | matrices
}

// Schedule is the learning rate over the steps.
type Schedule struct {
	Type        string  `yaml:"type"` // constant | linear | cosine | step
	WarmupSteps int     `yaml:"warmup_steps"`
	MinLR       float64 `yaml:"min_lr"`
	StepSize    int     `yaml:"step_size,omitempty"` // step: steps between decays
	Gamma       float64 `yaml:"gamma,omitempty"`     // step: factor of a decay
}

// DDP is gradient exchange.
type DDP struct {
	Backend              string  `yaml:"backend"` // auto | cpu | nccl
	BucketCapMB          float64 `yaml:"bucket_cap_mb"`
	FirstBucketMB        float64 `yaml:"first_bucket_mb"`
	GradientCompression  string  `yaml:"gradient_compression"` // none | fp16 | bf16
	BroadcastBuffers     bool    `yaml:"broadcast_buffers"`
	FindUnusedParameters bool    `yaml:"find_unused_parameters"`
}

// AMP is dynamic loss scaling of fp16.
type AMP struct {
	InitScale      float64 `yaml:"init_scale"`
	GrowthFactor   float64 `yaml:"growth_factor"`
	BackoffFactor  float64 `yaml:"backoff_factor"`
	GrowthInterval int     `yaml:"growth_interval"`
}

// Checkpoint is when and where state is saved.
type Checkpoint struct {
	Dir         string `yaml:"dir,omitempty"` // unset: checkpoints in the run directory
	EverySteps  int    `yaml:"every_steps"`
	EveryEpochs int    `yaml:"every_epochs"`
	Keep        int    `yaml:"keep"`
	Resume      string `yaml:"resume"` // auto | none | a checkpoint folder
}

// Debug switches on checks.
type Debug struct {
	BarrierTimeout time.Duration `yaml:"barrier_timeout"`
	Collectives    string        `yaml:"collectives"` // off | summary | detail
	TraceSamples   string        `yaml:"trace_samples"`
}

// Program is a program to launch instead of the trainer.
type Program struct {
	Command []string          `yaml:"command,flow"`
	Env     map[string]string `yaml:"env,omitempty"`
}
