package devicetest

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// T is a tensor, as in package device.
type T = device.T

// Tolerance is how far a result may be from its twin:
// |got-want| <= Abs + Rel*max|want|, the maximum taken over the tensor.
type Tolerance struct {
	Abs, Rel float64
}

// Float32 is the tolerance of a device that computes in float32 throughout.
var Float32 = Tolerance{Abs: 2e-6, Rel: 1e-5}

// Run holds the devices that open returns to the contract of package device.
// open is called once for each operator; Run closes what it returns.
func Run(t *testing.T, open func(*testing.T) device.Device, tol Tolerance) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"Memory", testMemory},
		{"MemoryReuse", testReuse},
		{"MemoryErrors", testMemoryErrors},
		{"MatMul", testMatMul},
		{"MatMulFolds", testMatMulFolds},
		{"MatMulErrors", testMatMulErrors},
		{"BiasGrad", testBiasGrad},
		{"Activate", testActivate},
		{"ActivateGrad", testActivateGrad},
		{"AddScale", testAddScale},
		{"ElementwiseErrors", testElementwiseErrors},
		{"LayerNorm", testLayerNorm},
		{"LayerNormGrad", testLayerNormGrad},
		{"LayerNormErrors", testLayerNormErrors},
		{"Attention", testAttention},
		{"AttentionGrad", testAttentionGrad},
		{"AttentionErrors", testAttentionErrors},
		{"CrossEntropy", testCrossEntropy},
		{"CrossEntropyHits", testCrossEntropyHits},
		{"CrossEntropyErrors", testCrossEntropyErrors},
		{"Embedding", testEmbedding},
		{"EmbeddingGrad", testEmbeddingGrad},
		{"EmbeddingErrors", testEmbeddingErrors},
		{"Conv2D", testConv2D},
		{"Conv2DGrad", testConv2DGrad},
		{"Conv2DErrors", testConv2DErrors},
		{"BatchNorm", testBatchNorm},
		{"BatchNormGrad", testBatchNormGrad},
		{"BatchNormErrors", testBatchNormErrors},
		{"Pool", testPool},
		{"PoolGrad", testPoolGrad},
		{"PoolErrors", testPoolErrors},
		{"Dropout", testDropout},
		{"DropoutErrors", testDropoutErrors},
		{"SGD", testSGD},
		{"Adam", testAdam},
		{"OptimizerErrors", testOptimizerErrors},
		{"SumSquares", testSumSquares},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, dev: open(t), tol: tol, rng: rand.New(rand.NewPCG(1, 2))}
			c.test(s)
			s.finish()
		})
	}
}

// suite is one test on one device.
type suite struct {
	*testing.T
	dev  device.Device
	tol  Tolerance
	rng  *rand.Rand
	live []T
}

// finish releases all tensors, so that a leak in an operator shows.
func (s *suite) finish() {
	s.Helper()
	s.drop()
	if got := s.dev.Stats().Allocated; got != 0 {
		s.Errorf("%d bytes are still allocated after all tensors were released", got)
	}
	s.ok(s.dev.Close())
}

// drop releases the tensors made so far.
func (s *suite) drop() {
	s.Helper()
	s.ok(s.dev.Synchronize())
	for _, t := range s.live {
		t.Release()
	}
	s.live = nil
}

// ok stops the test at an error.
func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// refuses wants an error, at once or at the next wait, that has all the words.
// It tells whether the results must be untouched: on a device that looks at the
// numbers before it computes, which a GPU does not, even if it is waited for.
func (s *suite) refuses(err error, words ...string) bool {
	s.Helper()
	atOnce := err != nil && s.dev.Place().Kind == tensor.CPU
	err = errors.Join(err, s.dev.Synchronize())
	if err == nil {
		s.Errorf("no error, want one with %q", words)
		return atOnce
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.Errorf("error %q does not have %q", err, w)
		}
	}
	return atOnce
}

// alloc is a tensor filled with a value that shows where nothing was written.
func (s *suite) alloc(name string, shape ...int) T {
	s.Helper()
	return s.upload(name, constant(tensor.Count(shape), 77), shape...)
}

// upload is a float32 tensor with the given values.
func (s *suite) upload(name string, values []float64, shape ...int) T {
	s.Helper()
	t := s.raw(name, tensor.Float32, shape...)
	b := make([]byte, 4*len(values))
	for i, v := range values {
		binary.NativeEndian.PutUint32(b[4*i:], math.Float32bits(float32(v)))
	}
	s.ok(s.dev.Upload(t, b))
	return t
}

// ints is an int32 tensor with the given values.
func (s *suite) ints(name string, values []int, shape ...int) T {
	s.Helper()
	t := s.raw(name, tensor.Int32, shape...)
	b := make([]byte, 4*len(values))
	for i, v := range values {
		binary.NativeEndian.PutUint32(b[4*i:], uint32(int32(v)))
	}
	s.ok(s.dev.Upload(t, b))
	return t
}

func (s *suite) raw(name string, dtype tensor.DType, shape ...int) T {
	s.Helper()
	t, err := s.dev.Alloc(name, dtype, shape...)
	s.ok(err)
	s.live = append(s.live, t)
	return t
}

// foreign is a float32 tensor in another device's memory.
func (s *suite) foreign(shape ...int) T {
	s.Helper()
	place := tensor.Place{Kind: tensor.CUDA, Index: 63}
	t, err := tensor.New("alien", tensor.Float32, tensor.DeviceStorage(place, 4096, 4*tensor.Count(shape), nil), 0, shape...)
	s.ok(err)
	return t
}

// floats downloads a float32 tensor.
func (s *suite) floats(t T) []float64 {
	s.Helper()
	b := make([]byte, t.Bytes())
	s.ok(s.dev.Download(b, t))
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])))
	}
	return out
}

// int32s downloads an int32 tensor.
func (s *suite) int32s(t T) []int {
	s.Helper()
	b := make([]byte, t.Bytes())
	s.ok(s.dev.Download(b, t))
	out := make([]int, t.Len())
	for i := range out {
		out[i] = int(int32(binary.NativeEndian.Uint32(b[4*i:])))
	}
	return out
}

// near compares a tensor with its twin.
func (s *suite) near(what string, t T, want []float64) {
	s.Helper()
	s.nearWithin(what, t, want, s.tol)
}

func (s *suite) nearWithin(what string, t T, want []float64, tol Tolerance) {
	s.Helper()
	got := s.floats(t)
	if len(got) != len(want) {
		s.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	var largest float64
	for _, v := range want {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			largest = math.Max(largest, math.Abs(v))
		}
	}
	limit := tol.Abs + tol.Rel*largest
	bad := 0
	for i, v := range got {
		same := v == want[i] || math.IsNaN(v) && math.IsNaN(want[i]) || math.Abs(v-want[i]) <= limit
		if !same {
			if bad++; bad <= 3 {
				s.Errorf("%s: element %d is %g, want %g (within %.2g)", what, i, v, want[i], limit)
			}
		}
	}
	if bad > 3 {
		s.Errorf("%s: %d of %d elements are wrong", what, bad, len(got))
	}
}

// equalInts compares an int32 tensor with its twin.
func (s *suite) equalInts(what string, t T, want []int) {
	s.Helper()
	for i, v := range s.int32s(t) {
		if v != want[i] {
			s.Errorf("%s: element %d is %d, want %d", what, i, v, want[i])
			return
		}
	}
}

// random is n numbers between -1 and 1 that a float32 holds.
func (s *suite) random(n int) []float64 { return random(s.rng, n) }

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(2*rng.Float32() - 1)
	}
	return x
}

// tensor is a random tensor and its values.
func (s *suite) tensor(name string, shape ...int) (T, []float64) {
	s.Helper()
	v := s.random(tensor.Count(shape))
	return s.upload(name, v, shape...), v
}

// below is n random numbers of 0..limit-1.
func (s *suite) below(n, limit int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = s.rng.IntN(limit)
	}
	return x
}

func constant(n int, v float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// f32 rounds to what a float32 operand holds.
func f32(v float64) float64 { return float64(float32(v)) }
