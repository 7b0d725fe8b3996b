package job

import "time"

// Job is a whole job file with defaults filled in. Field order is the order of
// the written file.
type Job struct {
	Name       string
	Launch     Launch
	Device     string // auto | cpu | cuda
	Precision  string // fp32 | tf32 | bf16 | fp16
	Model      *Model
	Data       *Data
	Loader     Loader
	Sampler    Sampler
	Train      *Train
	Loss       string // cross_entropy
	Optimizer  Optimizer
	Schedule   Schedule
	DDP        DDP
	AMP        AMP
	Checkpoint Checkpoint
	Debug      Debug
	Program    *Program // instead of model, data, train
}

// Launch is what the launcher needs; flags of the same name win over it.
type Launch struct {
	NprocPerNode string // a whole number, or auto | cpu | gpu
	NNodes       string // N or MIN:MAX
	MaxRestarts  int
}

// Model says what is trained. Layers belongs to sequential; Layers of the
// other types is a number, held in Depth.
type Model struct {
	Type    string  // sequential | gpt2 | bert | resnet
	Layers  []Layer // sequential
	Depth   int     // "layers: N" of gpt2, bert and resnet
	Heads   int
	Width   int
	Context int // tokens a sequence may have
	Vocab   int
	TieHead bool // gpt2; default true
	Dropout float64
	Init    Init
}

// Layer is one step of a sequential model. Which fields an op has, and which
// of them it must have, stands in layerSection.
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
	Seed int64
	From string // a safetensors file; names as in a PyTorch state_dict
}

// Data names the samples.
type Data struct {
	Type      string // csv | idx | tokens | bytes | image_folder | npy | synthetic
	Path      string
	CSV       *CSV
	IDX       *IDX
	Block     int    // tokens, bytes: context length
	DType     string // tokens without a header: uint16 | uint32
	Synthetic *Synth
	EvalPath  string // evaluation samples in a file of their own
	TrainRows RowRange
	EvalRows  RowRange
}

// CSV tells which columns of a table are used.
type CSV struct {
	Features RowRange // columns "from:to", to excluded
	Label    int      // column
	Scale    float64  // features are multiplied by it; default 1
	Header   bool     // the first line is not a sample
}

// IDX names the files of an MNIST-like set; relative names are in Data.Path.
// After Load they are absolute.
type IDX struct {
	Images     string
	Labels     string
	EvalImages string
	EvalLabels string
	Scale      float64 // pixels are multiplied by it; default 1/255
	Mean       float64 // then (x-mean)/std; defaults 0 and 1
	Std        float64
}

// Synth describes samples made from a seed.
type Synth struct {
	Samples     int
	EvalSamples int
	Shape       []int // features of a sample
	Classes     int   // labels are 0..classes-1
	Seed        int64
	Tokens      bool // samples are token sequences of length shape[0], vocabulary classes
}

// RowRange is "from:to", to excluded; the zero value means all.
type RowRange struct {
	From, To int
	Set      bool
}

// Loader feeds batches.
type Loader struct {
	Workers           int
	PrefetchFactor    int
	PinMemory         bool
	PersistentWorkers bool
	DropLast          bool
}

// Sampler orders and shards samples.
type Sampler struct {
	Shuffle  bool
	Seed     int64
	DropLast bool
}

// Train is how long and in what portions.
type Train struct {
	Epochs       int
	Steps        int     // instead of epochs
	BatchSize    int     // per rank
	Accumulate   int     // micro-batches a step
	ClipGradNorm float64 // 0: off
	LogEvery     int     // steps
	EvalEvery    int     // epochs, default 1; with steps: steps, default 0. 0: at the end only
}

// Optimizer is the update rule.
type Optimizer struct {
	Type        string // sgd | adam | adamw
	LR          float64
	Momentum    float64
	WeightDecay float64
	Nesterov    bool
	Betas       [2]float64
	Eps         float64
	Decay       string // all | matrices
}

// Schedule is the learning rate over the steps.
type Schedule struct {
	Type        string // constant | linear | cosine | step
	WarmupSteps int
	MinLR       float64
	StepSize    int     // step: steps between decays
	Gamma       float64 // step: factor of a decay
}

// DDP is gradient exchange.
type DDP struct {
	Backend              string // auto | cpu | nccl
	BucketCapMB          float64
	FirstBucketMB        float64
	GradientCompression  string // none | fp16 | bf16
	BroadcastBuffers     bool
	FindUnusedParameters bool
}

// AMP is dynamic loss scaling of fp16.
type AMP struct {
	InitScale      float64
	GrowthFactor   float64
	BackoffFactor  float64
	GrowthInterval int
}

// Checkpoint is when and where state is saved.
type Checkpoint struct {
	Dir         string // unset: checkpoints in the run directory
	EverySteps  int
	EveryEpochs int
	Keep        int
	Resume      string // auto | none | a checkpoint folder
}

// Debug switches on checks.
type Debug struct {
	BarrierTimeout time.Duration
	Collectives    string // off | summary | detail
	TraceSamples   string
}

// Program is a program to launch instead of the trainer.
type Program struct {
	Command []string
	Env     map[string]string
}
