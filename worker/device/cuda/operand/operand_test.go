package operand_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/device/cuda/operand"
	"github.com/ddprun/ddprun/worker/tensor"
)

var place = tensor.Place{Kind: tensor.CPU}

// bench makes tensors of the device that the checks are compared with.
type bench struct {
	*testing.T
	dev *cpu.Device
	rng *rand.Rand
}

func (b *bench) float(name string, shape ...int) device.T {
	return b.tensor(name, tensor.Float32, shape...)
}

func (b *bench) ints(name string, shape ...int) device.T {
	return b.tensor(name, tensor.Int32, shape...)
}

func (b *bench) tensor(name string, dtype tensor.DType, shape ...int) device.T {
	b.Helper()
	t, err := b.dev.Alloc(name, dtype, shape...)
	if err == nil {
		err = b.dev.Zero(t)
	}
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// other is a tensor to put in some operand's place.
func (b *bench) other() device.T {
	shapes := [][]int{{6, 8}, {8, 6}, {6}, {8}, {2, 3, 8}, {0, 8}, {}, {2, 3, 4, 4}, {48}, {1}}
	shape := shapes[b.rng.IntN(len(shapes))]
	switch b.rng.IntN(4) {
	case 0:
		return nil
	case 1:
		s := tensor.DeviceStorage(tensor.Place{Kind: tensor.CUDA, Index: 3}, 4096, 4*tensor.Count(shape), nil)
		t, err := tensor.New("alien", tensor.Float32, s, 0, shape...)
		if err != nil {
			b.Fatal(err)
		}
		return t
	case 2:
		return b.ints("whole", shape...)
	}
	return b.float("odd", shape...)
}

// mutate changes one field of the struct that args points to.
func (b *bench) mutate(args any) {
	v := reflect.ValueOf(args).Elem()
	f := v.Field(b.rng.IntN(v.NumField()))
	switch f.Kind() {
	case reflect.Pointer:
		switch u := v.Field(b.rng.IntN(v.NumField())); {
		case b.rng.IntN(3) == 0 && u.Type() == f.Type():
			f.Set(u) // the same tensor twice
		default:
			f.Set(reflect.ValueOf(b.other()))
		}
	case reflect.Slice:
		if b.rng.IntN(2) == 0 && f.Len() > 0 {
			f.Set(f.Slice(0, f.Len()-1))
		} else if ts, ok := f.Interface().([]device.T); ok && len(ts) > 0 {
			ts = append([]device.T(nil), ts...)
			if ts[b.rng.IntN(len(ts))] = b.other(); ts[0] != nil {
				f.Set(reflect.ValueOf(ts))
			}
		}
	case reflect.Int:
		f.SetInt(int64(b.rng.IntN(7) - 1))
	case reflect.Uint8:
		f.SetUint(uint64(b.rng.IntN(5)))
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Float32:
		f.SetFloat([]float64{0, 1, -1, 2}[b.rng.IntN(4)])
	}
}

// operator is a good set of operands, what the CPU device says to some, and
// what the check says.
type operator struct {
	args  func(b *bench) any
	run   func(d *cpu.Device, args any) error
	check func(args any) error
}

func on[A any](args func(*bench) A, run func(*cpu.Device, A) error, check func(A) error) operator {
	return operator{
		args:  func(b *bench) any { a := args(b); return &a },
		run:   func(d *cpu.Device, a any) error { return run(d, *a.(*A)) },
		check: func(a any) error { return check(*a.(*A)) },
	}
}

// two, three and four are the operands of operators without a struct.
type (
	two struct {
		Out, X device.T
		Act    device.Activation
	}
	three struct {
		Out, X, Y device.T
		Act       device.Activation
	}
)

var operators = map[string]operator{
	"matmul": on(func(b *bench) device.MatMulArgs {
		a := device.MatMulArgs{Out: b.float("out", 6, 8), A: b.float("a", 6, 6), B: b.float("b", 6, 8), Bias: b.float("bias", 8)}
		if b.rng.IntN(2) == 0 {
			a.Act, a.Pre = device.GELU, b.float("pre", 6, 8)
		}
		if b.rng.IntN(3) == 0 {
			a.Act, a.Pre, a.Bias, a.GradOf, a.GradAt = 0, nil, nil, device.ReLU, b.float("at", 6, 8)
		}
		return a
	}, (*cpu.Device).MatMul, func(a device.MatMulArgs) error { _, err := operand.MatMul(place, a); return err }),
	"bias gradient": on(func(b *bench) two { return two{Out: b.float("dbias", 8), X: b.float("dout", 6, 8)} },
		func(d *cpu.Device, a two) error { return d.BiasGrad(a.Out, a.X, false) },
		func(a two) error { _, _, err := operand.BiasGrad(place, a.Out, a.X); return err }),
	"activate": on(func(b *bench) two { return two{Out: b.float("out", 6, 8), X: b.float("x", 6, 8), Act: device.GELU} },
		func(d *cpu.Device, a two) error { return d.Activate(a.Out, a.X, a.Act) },
		func(a two) error { return operand.Activate(place, a.Out, a.X, a.Act) }),
	"activation gradient": on(func(b *bench) three {
		return three{Out: b.float("dx", 6, 8), X: b.float("dout", 6, 8), Y: b.float("at", 6, 8), Act: device.GELU}
	}, func(d *cpu.Device, a three) error { return d.ActivateGrad(a.Out, a.X, a.Y, a.Act) },
		func(a three) error { return operand.ActivateGrad(place, a.Out, a.X, a.Y, a.Act) }),
	"add": on(func(b *bench) three {
		return three{Out: b.float("out", 6, 8), X: b.float("a", 6, 8), Y: b.float("b", 6, 8)}
	}, func(d *cpu.Device, a three) error { return d.Add(a.Out, a.X, a.Y) },
		func(a three) error { return operand.Add(place, a.Out, a.X, a.Y) }),
	"scale": on(func(b *bench) two { return two{X: b.float("x", 6)} },
		func(d *cpu.Device, a two) error { return d.Scale(a.X, 2) },
		func(a two) error { return operand.Scale(place, a.X) }),
	"copy": on(func(b *bench) two { return two{Out: b.float("dst", 6, 8), X: b.float("src", 48)} },
		func(d *cpu.Device, a two) error { return d.Copy(a.Out, a.X) },
		func(a two) error { return operand.Copy(place, a.Out, a.X) }),
	"upload": on(func(b *bench) two { return two{Out: b.float("t", 6, 8)} },
		func(d *cpu.Device, a two) error { return d.Upload(a.Out, make([]byte, 192)) },
		func(a two) error { return operand.One(place, "upload", a.Out, 192) }),
	"layernorm": on(func(b *bench) device.LayerNormArgs {
		a := device.LayerNormArgs{
			Out: b.float("out", 6, 8), X: b.float("x", 6, 8), Gamma: b.float("gamma", 8), Beta: b.float("beta", 8),
			Mean: b.float("mean", 6), Rstd: b.float("rstd", 6), Eps: 1,
		}
		if b.rng.IntN(2) == 0 {
			a.Residual, a.Sum = b.float("residual", 6, 8), b.float("sum", 6, 8)
		}
		return a
	}, (*cpu.Device).LayerNorm, func(a device.LayerNormArgs) error { _, _, err := operand.LayerNorm(place, a); return err }),
	"layernorm gradient": on(func(b *bench) device.LayerNormGradArgs {
		return device.LayerNormGradArgs{
			DX: b.float("dx", 6, 8), DOut: b.float("dout", 6, 8), DSum: b.float("dsum", 6, 8), X: b.float("x", 6, 8), Gamma: b.float("gamma", 8),
			Mean: b.float("mean", 6), Rstd: b.float("rstd", 6), DGamma: b.float("dgamma", 8), DBeta: b.float("dbeta", 8),
		}
	}, (*cpu.Device).LayerNormGrad, func(a device.LayerNormGradArgs) error { _, _, err := operand.LayerNormGrad(place, a); return err }),
	"attention": on(func(b *bench) device.AttentionArgs {
		return device.AttentionArgs{Out: b.float("out", 6, 8), QKV: b.float("qkv", 6, 24), LSE: b.float("lse", 2, 2, 3), Batch: 2, Tokens: 3, Heads: 2}
	}, (*cpu.Device).Attention, func(a device.AttentionArgs) error { _, err := operand.Attention(place, a); return err }),
	"attention gradient": on(func(b *bench) device.AttentionGradArgs {
		return device.AttentionGradArgs{
			DQKV: b.float("dqkv", 6, 24), DOut: b.float("dout", 6, 8), QKV: b.float("qkv", 6, 24), Out: b.float("out", 6, 8),
			LSE: b.float("lse", 2, 2, 3), Batch: 2, Tokens: 3, Heads: 2,
		}
	}, (*cpu.Device).AttentionGrad, func(a device.AttentionGradArgs) error { _, err := operand.AttentionGrad(place, a); return err }),
	"cross-entropy": on(func(b *bench) device.CrossEntropyArgs {
		return device.CrossEntropyArgs{Logits: b.float("logits", 6, 8), Targets: b.ints("targets", 6), Loss: b.float("loss", 1), Correct: b.ints("correct", 1), DLogits: b.float("dlogits", 6, 8)}
	}, (*cpu.Device).CrossEntropy, func(a device.CrossEntropyArgs) error { _, _, err := operand.CrossEntropy(place, a); return err }),
	"embedding": on(func(b *bench) device.EmbeddingArgs {
		return device.EmbeddingArgs{Out: b.float("out", 6, 8), Table: b.float("table", 5, 8), Index: b.ints("index", 6), Position: b.float("position", 3, 8), Tokens: 3}
	}, (*cpu.Device).Embedding, func(a device.EmbeddingArgs) error { _, err := operand.Embedding(place, a); return err }),
	"embedding gradient": on(func(b *bench) device.EmbeddingGradArgs {
		return device.EmbeddingGradArgs{DOut: b.float("dout", 6, 8), DTable: b.float("dtable", 5, 8), Index: b.ints("index", 6), DPosition: b.float("dposition", 3, 8), Tokens: 3}
	}, (*cpu.Device).EmbeddingGrad, func(a device.EmbeddingGradArgs) error { _, err := operand.EmbeddingGrad(place, a); return err }),
	"conv2d": on(func(b *bench) device.Conv2DArgs {
		return device.Conv2DArgs{Out: b.float("out", 2, 5, 4, 4), X: b.float("x", 2, 3, 4, 4), Weight: b.float("w", 5, 3, 3, 3), Bias: b.float("bias", 5), Kernel: 3, Stride: 1, Padding: 1}
	}, (*cpu.Device).Conv2D, func(a device.Conv2DArgs) error { _, err := operand.Conv2D(place, a); return err }),
	"conv2d gradient": on(func(b *bench) device.Conv2DGradArgs {
		return device.Conv2DGradArgs{
			DX: b.float("dx", 2, 3, 4, 4), DWeight: b.float("dw", 5, 3, 3, 3), DBias: b.float("db", 5), DOut: b.float("dout", 2, 5, 4, 4),
			X: b.float("x", 2, 3, 4, 4), Weight: b.float("w", 5, 3, 3, 3), Kernel: 3, Stride: 1, Padding: 1,
		}
	}, (*cpu.Device).Conv2DGrad, func(a device.Conv2DGradArgs) error { _, err := operand.Conv2DGrad(place, a); return err }),
	"batchnorm": on(func(b *bench) device.BatchNormArgs {
		return device.BatchNormArgs{
			Out: b.float("out", 2, 3, 4, 4), X: b.float("x", 2, 3, 4, 4), Gamma: b.float("gamma", 3), Beta: b.float("beta", 3), Eps: 1,
			RunningMean: b.float("rmean", 3), RunningVar: b.float("rvar", 3), Mean: b.float("mean", 3), Rstd: b.float("rstd", 3), Training: b.rng.IntN(2) == 0,
		}
	}, (*cpu.Device).BatchNorm, func(a device.BatchNormArgs) error { _, err := operand.BatchNorm(place, a); return err }),
	"batchnorm gradient": on(func(b *bench) device.BatchNormGradArgs {
		return device.BatchNormGradArgs{
			DX: b.float("dx", 2, 3, 4, 4), DOut: b.float("dout", 2, 3, 4, 4), X: b.float("x", 2, 3, 4, 4), Gamma: b.float("gamma", 3),
			Mean: b.float("mean", 3), Rstd: b.float("rstd", 3), DGamma: b.float("dgamma", 3), DBeta: b.float("dbeta", 3),
		}
	}, (*cpu.Device).BatchNormGrad, func(a device.BatchNormGradArgs) error { _, err := operand.BatchNormGrad(place, a); return err }),
	"pool": on(func(b *bench) device.PoolArgs {
		return device.PoolArgs{Out: b.float("out", 2, 3, 2, 2), X: b.float("x", 2, 3, 4, 4), Index: b.ints("index", 2, 3, 2, 2), Kernel: 2, Stride: 2, Max: b.rng.IntN(2) == 0}
	}, (*cpu.Device).Pool, func(a device.PoolArgs) error { _, err := operand.Pool(place, a); return err }),
	"pool gradient": on(func(b *bench) device.PoolGradArgs {
		return device.PoolGradArgs{DX: b.float("dx", 2, 3, 4, 4), DOut: b.float("dout", 2, 3, 2, 2), Index: b.ints("index", 2, 3, 2, 2), Kernel: 2, Stride: 2, Max: b.rng.IntN(2) == 0}
	}, (*cpu.Device).PoolGrad, func(a device.PoolGradArgs) error { _, err := operand.PoolGrad(place, a); return err }),
	"dropout": on(func(b *bench) device.DropoutArgs {
		return device.DropoutArgs{Out: b.float("out", 6, 8), X: b.float("x", 6, 8), P: 0.5}
	}, (*cpu.Device).Dropout, func(a device.DropoutArgs) error { return operand.Dropout(place, a) }),
	"sgd": on(func(b *bench) device.SGDArgs {
		return device.SGDArgs{Params: b.list("p"), Grads: b.list("g"), Momentum: b.list("m"), Mu: 0.5}
	}, (*cpu.Device).SGD, func(a device.SGDArgs) error { return operand.SGD(place, a) }),
	"adam": on(func(b *bench) device.AdamArgs {
		return device.AdamArgs{Params: b.list("p"), Grads: b.list("g"), Moment1: b.list("m"), Moment2: b.list("v"), Step: 1, WeightDecay: []float32{0, 1}}
	}, (*cpu.Device).Adam, func(a device.AdamArgs) error { return operand.Adam(place, a) }),
	"sum of squares": on(func(b *bench) device.SGDArgs { return device.SGDArgs{Params: b.list("p")} },
		func(d *cpu.Device, a device.SGDArgs) error { _, err := d.SumSquares(a.Params); return err },
		func(a device.SGDArgs) error { return operand.Floats(place, "sum of squares", a.Params) }),
}

func (b *bench) list(name string) []device.T { return []device.T{b.float(name, 6), b.float(name, 8)} }

// stricter is what the check refuses beyond the CPU device: operands that
// overlap in part, of which a parallel machine makes nonsense.
func stricter(err error) bool { return strings.Contains(err.Error(), "share memory") }

// inside is what the check leaves to the kernels: numbers in a tensor.
func inside(err error) bool { return err != nil && strings.Contains(err.Error(), " in row ") }

// TestAsTheCPU changes operands at random and holds the check to what the CPU
// device says, word for word.
func TestAsTheCPU(t *testing.T) {
	for name, op := range operators {
		t.Run(name, func(t *testing.T) {
			dev, err := cpu.New(cpu.Options{BLAS: "gonum"})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			b := &bench{t, dev, rand.New(rand.NewPCG(5, 6))}
			refused := map[string]int{}
			for i := range 1500 {
				args := op.args(b)
				for range i % 3 {
					b.mutate(args)
				}
				got, want := op.check(args), op.run(dev, args)
				if got != nil {
					refused[got.Error()]++
				}
				same := fmt.Sprint(got) == fmt.Sprint(want) || got != nil && stricter(got) || got == nil && inside(want)
				if !same {
					t.Fatalf("%+v:\n the check says %v\n the cpu says   %v", reflect.ValueOf(args).Elem(), got, want)
				}
			}
			if len(refused) < 3 {
				t.Errorf("only %d different refusals: the changes find nothing", len(refused))
			}
		})
	}
}

func TestGeometry(t *testing.T) {
	dev, err := cpu.New(cpu.Options{BLAS: "gonum"})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	b := &bench{t, dev, nil}
	p, err := operand.MatMul(place, device.MatMulArgs{Out: b.float("out", 2, 3, 5), A: b.float("a", 4, 6), B: b.float("b", 5, 4), TransA: true, TransB: true})
	if want := (operand.Product{M: 6, N: 5, K: 4}); err != nil || p != want {
		t.Errorf("matmul: %+v, %v", p, err)
	}
	c, err := operand.Conv2D(place, device.Conv2DArgs{Out: b.float("out", 2, 5, 3, 4), X: b.float("x", 2, 3, 6, 7), Weight: b.float("w", 5, 3, 3, 3), Kernel: 3, Stride: 2, Padding: 1})
	if want := (operand.Conv{Batch: 2, In: 3, Height: 6, Width: 7, Out: 5, Rows: 3, Columns: 4, Kernel: 3, Stride: 2, Padding: 1}); err != nil || c != want || c.Pixels() != 12 || c.Patch() != 27 {
		t.Errorf("conv2d: %+v, %v", c, err)
	}
	_, err = operand.Attention(place, device.AttentionArgs{Out: b.float("out", 1, 256), QKV: b.float("qkv", 1, 768), Batch: 1, Tokens: 1, Heads: 1})
	if err == nil || !strings.Contains(err.Error(), "256") || !strings.Contains(err.Error(), "128") {
		t.Errorf("a head of 256: %v", err)
	}
}
