package blas

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
)

// providers are all that this machine has.
func providers(t testing.TB) map[string]Provider {
	t.Helper()
	out := map[string]Provider{}
	for _, name := range []string{"openblas", "avx2", "gonum"} {
		p, err := Open(Options{Library: name, Threads: 1})
		if err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		if p.Name() != name {
			t.Fatalf("asked for %s, got %s", name, p.Name())
		}
		out[name] = p
	}
	return out
}

// plain is the definition of SGEMM.
func plain(o operands, alpha, beta float32) []float64 {
	out := make([]float64, len(o.c))
	for i := range o.c {
		out[i] = float64(o.c[i])
	}
	for i := range o.m {
		for j := range o.n {
			var s float64
			for p := range o.k {
				x, y := i*o.lda+p, p*o.ldb+j
				if o.transA {
					x = p*o.lda + i
				}
				if o.transB {
					y = j*o.ldb + p
				}
				s += float64(o.a[x]) * float64(o.b[y])
			}
			at := i*o.ldc + j
			if beta == 0 {
				out[at] = float64(alpha) * s
			} else {
				out[at] = float64(alpha)*s + float64(beta)*out[at]
			}
		}
	}
	return out
}

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// problem makes matrices whose stored rows are pad longer than needed. The
// slices end with the last element, so that one read too many is a fault
// under the race detector and likely elsewhere.
func problem(r *rand.Rand, ta, tb bool, m, n, k, pad int) operands {
	o := operands{transA: ta, transB: tb, m: m, n: n, k: k}
	size := func(rows, cols int) (int, int) {
		ld := max(1, cols) + pad
		if rows == 0 || cols == 0 {
			return ld, 0
		}
		return ld, (rows-1)*ld + cols
	}
	ar, ac, br, bc := m, k, k, n
	if ta {
		ar, ac = ac, ar
	}
	if tb {
		br, bc = bc, br
	}
	var na, nb, nc int
	o.lda, na = size(ar, ac)
	o.ldb, nb = size(br, bc)
	o.ldc, nc = size(m, n)
	o.a, o.b, o.c = random(r, na), random(r, nb), random(r, nc)
	return o
}

func run(p Provider, o operands, alpha, beta float32) error {
	return p.SGEMM(o.transA, o.transB, o.m, o.n, o.k, alpha, o.a, o.lda, o.b, o.ldb, beta, o.c, o.ldc)
}

func compare(t *testing.T, name string, p Provider, o operands, alpha, beta float32) {
	t.Helper()
	want := plain(o, alpha, beta)
	a, b := append([]float32(nil), o.a...), append([]float32(nil), o.b...)
	if err := run(p, o, alpha, beta); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, v := range o.c {
		if d := math.Abs(float64(v) - want[i]); !(d <= 2e-6*math.Sqrt(float64(o.k+1))*(4+math.Abs(want[i]))) {
			t.Fatalf("%s: transA %v transB %v m %d n %d k %d ld %d %d %d alpha %v beta %v: c[%d] = %v, want %v",
				name, o.transA, o.transB, o.m, o.n, o.k, o.lda, o.ldb, o.ldc, alpha, beta, i, v, want[i])
		}
	}
	for i := range a {
		if o.a[i] != a[i] {
			t.Fatalf("%s: A was written", name)
		}
	}
	for i := range b {
		if o.b[i] != b[i] {
			t.Fatalf("%s: B was written", name)
		}
	}
}

func TestSGEMM(t *testing.T) {
	sizes := [][3]int{
		{0, 0, 0},
		{0, 3, 2},
		{3, 0, 2},
		{3, 2, 0},
		{1, 1, 1},
		{1, 17, 5},
		{17, 1, 5},
		{2, 3, 4},
		{5, 15, 7},
		{6, 16, 8},
		{7, 17, 9},
		{8, 8, 8},
		{12, 32, 1},
		{13, 33, 31},
		{64, 64, 64},
		{31, 130, 257},
		{145, 47, 300},
		{150, 1030, 3},
		{300, 20, 260},
	}
	for name, p := range providers(t) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, s := range sizes {
				for trans := range 4 {
					for i, f := range [][2]float32{{1, 0}, {1, 1}, {-0.5, 2}, {0, 0.5}} {
						for _, pad := range []int{0, 5} {
							if s[0]*s[1]*s[2] > 1<<17 && (i > 0 || pad == 0) {
								continue // the definition is slow
							}
							o := problem(r, trans&1 != 0, trans&2 != 0, s[0], s[1], s[2], pad)
							compare(t, name, p, o, f[0], f[1])
						}
					}
				}
			}
		})
	}
}

// With beta 0 C may hold anything, with alpha 0 A and B may.
func TestNaN(t *testing.T) {
	nan := float32(math.NaN())
	for name, p := range providers(t) {
		for _, s := range [][3]int{{3, 5, 7}, {40, 50, 60}, {6, 16, 4}, {4, 4, 0}} {
			for trans := range 4 {
				r := rand.New(rand.NewPCG(1, 2))
				o := problem(r, trans&1 != 0, trans&2 != 0, s[0], s[1], s[2], 0)
				for i := range o.c {
					o.c[i] = nan
				}
				compare(t, name, p, o, 1, 0)
				for i := range o.a {
					o.a[i] = nan
				}
				for i := range o.b {
					o.b[i] = nan
				}
				if err := run(p, o, 0, 0); err != nil {
					t.Fatal(err)
				}
				for _, v := range o.c {
					if v != 0 {
						t.Fatalf("%s: alpha 0, beta 0 left %v", name, v)
					}
				}
			}
		}
	}
}

func TestMisfitsAreErrors(t *testing.T) {
	for name, p := range providers(t) {
		good := func() operands { return problem(rand.New(rand.NewPCG(1, 1)), false, false, 4, 5, 6, 1) }
		for what, spoil := range map[string]func(o *operands){
			"negative": func(o *operands) { o.m = -1 },
			"A":        func(o *operands) { o.a = o.a[1:] },
			"B":        func(o *operands) { o.b = o.b[1:] },
			"C":        func(o *operands) { o.c = o.c[1:] },
			"matrix A": func(o *operands) { o.lda = 5 },
			"matrix B": func(o *operands) { o.ldb = 4 },
			"matrix C": func(o *operands) { o.ldc = 4 },
			"6×4":      func(o *operands) { o.transA, o.lda = true, 3 },
			"5×6":      func(o *operands) { o.transB, o.ldb = true, 5 },
			"apart":    func(o *operands) { o.lda = math.MaxInt },
		} {
			o := good()
			before := append([]float32(nil), o.c...)
			spoil(&o)
			err := run(p, o, 1, 0)
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
			for i, v := range o.c {
				if v != before[i+len(before)-len(o.c)] {
					t.Fatalf("%s: %s: C was written", name, what)
				}
			}
		}
	}
}

// Threads must not change a result, and calls may overlap.
func TestThreads(t *testing.T) {
	for name, p := range providers(t) {
		for _, s := range [][3]int{{301, 97, 60}, {97, 301, 60}} {
			for trans := range 4 {
				o := problem(rand.New(rand.NewPCG(7, 7)), trans&1 != 0, trans&2 != 0, s[0], s[1], s[2], 3)
				p.SetThreads(3)
				compare(t, name, p, o, 1, 0)
				first := append([]float32(nil), o.c...)
				p.SetThreads(1)
				compare(t, name, p, o, 1, 0)
				for i := range first {
					if name == "avx2" && first[i] != o.c[i] {
						t.Fatalf("%s: 3 threads and 1 give different bits", name)
					}
				}
			}
		}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 7))
				for range 20 {
					compare(t, name, p, problem(r, false, true, 20+g, 30, 40, 0), 1, 1)
				}
			})
		}
		wg.Wait()
	}
}

func TestOpen(t *testing.T) {
	t.Setenv("OPENBLAS_NUM_THREADS", "7")
	if _, err := Open(Options{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	if v := os.Getenv("OPENBLAS_NUM_THREADS"); v != "7" {
		t.Errorf("loading left OPENBLAS_NUM_THREADS=%s behind", v)
	}
	p, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.Describe())
	if _, err := Open(Options{Library: "/nowhere/libopenblas.so"}); err == nil || !strings.Contains(err.Error(), "/nowhere/libopenblas.so") {
		t.Errorf("a missing library: %v", err)
	}
	t.Setenv(EnvLibrary, "gonum")
	if p, err = Open(Options{}); err != nil || p.Name() != "gonum" {
		t.Errorf("%s=gonum: %v, %v", EnvLibrary, p, err)
	}
	if p, err = Open(Options{Library: "auto"}); err != nil {
		t.Errorf("options must win over the environment: %v, %v", p, err)
	}
}

func TestNothingAllocates(t *testing.T) {
	for name, p := range providers(t) {
		o := problem(rand.New(rand.NewPCG(7, 7)), false, true, 8, 8, 8, 0)
		if name == "gonum" {
			continue // gonum's own
		}
		if n := testing.AllocsPerRun(100, func() { run(p, o, 1, 0) }); n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}

func BenchmarkSGEMM(b *testing.B) {
	for name, p := range providers(b) {
		for _, s := range [][3]int{{8, 8, 8}, {32, 10, 128}, {32, 128, 64}, {64, 64, 32}, {128, 128, 32}, {256, 768, 192}, {512, 512, 512}, {1024, 1024, 1024}} {
			for trans := range 4 {
				o := problem(rand.New(rand.NewPCG(7, 7)), trans&1 != 0, trans&2 != 0, s[0], s[1], s[2], 0)
				if trans == 3 || (name == "gonum" && s[0] > 512) {
					continue
				}
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s%s", name, s[0], s[1], s[2], mark(o.transA), mark(o.transB)), func(b *testing.B) {
					for b.Loop() {
						if err := run(p, o, 1, 0); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(2*float64(s[0])*float64(s[1])*float64(s[2])*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

func mark(trans bool) string {
	if trans {
		return "T"
	}
	return "N"
}
