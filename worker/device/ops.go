package device

import "github.com/ddprun/ddprun/worker/tensor"

// T is short for a tensor in the argument lists below. A nil T is "not there".
type T = *tensor.Tensor

// Activation is an element-wise function fused into a matrix product.
type Activation uint8

// Activations.
const (
	Identity Activation = iota
	ReLU
	GELU     // exact: x * Phi(x), PyTorch's default
	GELUTanh // tanh approximation, as GPT-2 uses
)

func (a Activation) String() string {
	return [...]string{"identity", "relu", "gelu", "gelu_tanh"}[a]
}

// MatMulArgs describes Out = act(A*B + Bias) + Beta*Out, or, in backward, the
// product multiplied by an activation's derivative.
type MatMulArgs struct {
	Out, A, B      T // [m n], [m k] ([k m] when TransA), [k n] ([n k] when TransB); leading dimensions are folded into rows
	TransA, TransB bool
	Beta           float32 // 0 overwrites Out, 1 adds to it; must be 0 with an activation
	Bias           T       // [n], added to each row; nil: none
	Act            Activation
	// Pre takes the product before the activation (GELU kinds need it in
	// backward); nil: not kept.
	Pre T
	// Out and Pre must not overlap A, B or each other, nor Out GradAt or Bias.
	//
	// GradOf makes the product a gradient: Out = (A*B) * act'(at) where at is
	// GradAt: the activation's output for ReLU, its input for the GELU kinds.
	GradOf Activation
	GradAt T
}

// LayerNormArgs: Sum = X + Residual (when Residual is there; Sum may be X
// otherwise nil), Out = (Sum - Mean)*Rstd*Gamma + Beta over the last dimension.
type LayerNormArgs struct {
	Out, X, Residual, Sum T // [rows width]
	Gamma, Beta           T // [width]
	Mean, Rstd            T // [rows], kept for backward; nil: not kept
	Eps                   float32
}

// LayerNormGradArgs: DX = gradient of the normalised input (X is Sum of the
// forward) plus DSum when it is there. DGamma and DBeta are overwritten, or
// added to when Accumulate. DX may be DSum.
type LayerNormGradArgs struct {
	DX, DOut, DSum, X T
	Gamma, Mean, Rstd T
	DGamma, DBeta     T
	Accumulate        bool
}

// AttentionArgs is multi-head scaled dot-product attention over packed rows:
// QKV is [batch*tokens, 3*width] with q, k, v side by side and the heads side
// by side in each; Out is [batch*tokens, width].
type AttentionArgs struct {
	Out, QKV             T
	LSE                  T // [batch heads tokens] log of the sum of exponentials, kept for backward; nil: not kept
	Batch, Tokens, Heads int
	Causal               bool
}

// AttentionGradArgs: DQKV from DOut and the forward's operands.
type AttentionGradArgs struct {
	DQKV, DOut, QKV, Out, LSE T
	Batch, Tokens, Heads      int
	Causal                    bool
}

// CrossEntropyArgs: softmax cross-entropy straight from logits. A row whose
// target is negative is left out.
type CrossEntropyArgs struct {
	Logits  T // [rows classes]
	Targets T // int32 [rows]
	Loss    T // float32 [1]: the sum of -log p[target] is ADDED; nil: not wanted
	Correct T // int32 [1]: the number of rows whose largest logit (the first of equal ones) is the target's is ADDED; nil: not wanted
	DLogits T // gradient: (softmax - onehot)*Scale; may be Logits itself; nil: not wanted
	Scale   float32
}

// EmbeddingArgs: Out[row] = Table[Index[row]] + Position[row % tokens].
type EmbeddingArgs struct {
	Out      T // [rows width]
	Table    T // [vocab width]
	Index    T // int32 [rows]
	Position T // [>= tokens width]; nil: none
	Tokens   int
}

// EmbeddingGradArgs adds rows of DOut into DTable and DPosition (nil: none).
// The sums are made in row order, so they are reproducible.
type EmbeddingGradArgs struct {
	DOut, Index       T
	DTable, DPosition T
	Tokens            int
}

// Conv2DArgs is a cross-correlation over [batch channels height width].
type Conv2DArgs struct {
	Out, X, Weight, Bias    T // Weight [out in kernel kernel], Bias [out] or nil
	Kernel, Stride, Padding int
}

// Conv2DGradArgs: nil results are not wanted. DWeight and DBias are
// overwritten, or added to when Accumulate.
type Conv2DGradArgs struct {
	DX, DWeight, DBias, DOut T
	X, Weight                T
	Kernel, Stride, Padding  int
	Accumulate               bool
}

// BatchNormArgs normalises each channel of [batch channels height width], by
// the batch's own statistics in training (running ones are then updated with
// the unbiased variance, as PyTorch does), by the running ones otherwise. Out
// must not be X.
type BatchNormArgs struct {
	Out, X                  T
	Gamma, Beta             T // [channels]
	RunningMean, RunningVar T
	Mean, Rstd              T // [channels], kept for backward
	Eps, Momentum           float32
	Training                bool
}

// BatchNormGradArgs is the backward of a training BatchNorm.
type BatchNormGradArgs struct {
	DX, DOut, X       T
	Gamma, Mean, Rstd T
	DGamma, DBeta     T
	Accumulate        bool
}

// PoolArgs pools windows of [batch channels height width]; windows do not
// reach over the edge. Of equal values the first counts, a NaN before all. Out
// must not be X.
type PoolArgs struct {
	Out, X         T
	Index          T // max: int32, like Out: the flat place in its channel's plane; kept for backward
	Kernel, Stride int
	Max            bool // otherwise the average
}

// PoolGradArgs: DX is overwritten.
type PoolGradArgs struct {
	DX, DOut, Index T
	Kernel, Stride  int
	Max             bool
}

// DropoutArgs: each element is dropped with probability P, the rest scaled by
// 1/(1-P). Which are dropped is a function of Seed, Offset and the element's
// place alone, so backward runs the same call on the gradient: element i is
// dropped when word i%4 of Philox4x32-10 (Salmon et al. 2011; key Seed, counter
// (i/4, Offset), low words first) is below P*2^32.
type DropoutArgs struct {
	Out, X       T // may be the same tensor
	P            float32
	Seed, Offset uint64
}

// SGDArgs is one step of torch.optim.SGD over all parameters.
type SGDArgs struct {
	Params, Grads, Momentum []T // Momentum may be nil when Mu is 0
	LR, Mu, WeightDecay     float32
	Nesterov                bool
	First                   bool    // momentum buffers hold nothing yet
	GradScale               float32 // gradients are multiplied by it first
}

// AdamArgs is one step of torch.optim.Adam, or AdamW when Decoupled.
type AdamArgs struct {
	Params, Grads, Moment1, Moment2 []T
	LR, Beta1, Beta2, Eps           float32
	WeightDecay                     []float32 // per parameter
	Decoupled                       bool
	Step                            int // 1 at the first step
	GradScale                       float32
}

// Ops is the set of operators. Shapes that do not fit, types an operator does
// not know and operands of another device are errors that name the operator
// and the tensor.
type Ops interface {
	MatMul(MatMulArgs) error
	// BiasGrad makes dbias [n] the sum of dout's [m n] rows, or adds it.
	BiasGrad(dbias, dout T, accumulate bool) error
	// Activate applies act to x; out may be x.
	Activate(out, x T, act Activation) error
	// ActivateGrad: dx = dout * act'(at), at as in MatMulArgs.GradAt; dx may be dout.
	ActivateGrad(dx, dout, at T, act Activation) error
	// Add: out = a + b; out may be a or b.
	Add(out, a, b T) error
	// Scale multiplies t by f.
	Scale(t T, f float32) error

	LayerNorm(LayerNormArgs) error
	LayerNormGrad(LayerNormGradArgs) error
	Attention(AttentionArgs) error
	AttentionGrad(AttentionGradArgs) error
	CrossEntropy(CrossEntropyArgs) error
	Embedding(EmbeddingArgs) error
	EmbeddingGrad(EmbeddingGradArgs) error
	Conv2D(Conv2DArgs) error
	Conv2DGrad(Conv2DGradArgs) error
	BatchNorm(BatchNormArgs) error
	BatchNormGrad(BatchNormGradArgs) error
	Pool(PoolArgs) error
	PoolGrad(PoolGradArgs) error
	Dropout(DropoutArgs) error

	SGD(SGDArgs) error
	Adam(AdamArgs) error
	// SumSquares returns the sum of the squares of all elements of all
	// tensors, accumulated in float64 in the order of the list; it waits.
	SumSquares(ts []T) (float64, error)
}
