package job

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// again writes a job and loads what was written.
func again(j *Job) (*Job, error) {
	var b bytes.Buffer
	if err := j.Write(&b); err != nil {
		return nil, err
	}
	s := &source{name: "/elsewhere/again.yaml", dir: "/elsewhere", cwd: "/nowhere"}
	k, ps := s.load(b.Bytes())
	if len(ps) > 0 {
		return nil, fmt.Errorf("%w\nin:\n%s", ps, b.Bytes())
	}
	return k, nil
}

func checkAgain(t *testing.T, j *Job) {
	t.Helper()
	k, err := again(j)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(j, k) {
		t.Errorf("another job:\n%+v\n%+v", j, k)
	}
	if j.Digest() != k.Digest() || len(Diff(j, k)) > 0 {
		t.Errorf("another digest: %v", Diff(j, k))
	}
}

const gptText = `
model: {type: gpt2, layers: 2, heads: 2, width: 8, context: 16, vocab: 256, tie_head: false, dropout: 0.1}
data: {type: tokens, path: "x*.bin", block: 16, dtype: uint32, eval_rows: "0:4"}
train: {steps: 5, batch_size: 1}
optimizer: {type: adamw, betas: [0.9, 0.95]}
schedule: {type: step, step_size: 2, gamma: 0.3}
`

const programText = `
launch: {nproc_per_node: auto, nnodes: "1:4"}
program: {command: [sh, -c, "echo 'a: b' # \"\nnull", "", "~", "1e3", "*", "%", "\u2028\x01é"], env: {A: 1, B: "", "c d": "null"}}
debug: {barrier_timeout: 0s}
`

const imageText = `
model:
  type: sequential
  layers:
    - {op: reshape, shape: [1, 28, 28]}
    - {op: conv2d, in: 1, out: 4, kernel: 3, stride: 2, padding: 1, bias: false}
    - {op: batchnorm2d, features: 4, momentum: 0.2}
    - {op: gelu}
    - {op: avgpool2d, kernel: 2}
    - {op: global_avgpool}
    - {op: flatten}
    - {op: layernorm, features: 4, eps: 1e-6}
    - {op: dropout, p: 0.25}
    - {op: linear, in: 4, out: 10, name: head}
data: {type: idx, path: set, idx: {images: a, labels: b, eval_images: c, eval_labels: d}, train_rows: "5:10"}
train: {epochs: 5, batch_size: 1}
optimizer: {type: sgd, lr: 0.1}
`

const synthText = `
model: {type: sequential, layers: [{op: embedding, vocab: 9, width: 3}, {op: linear, in: 3, out: 9}]}
data: {type: synthetic, synthetic: {samples: 9, shape: [4], classes: 9, tokens: true, seed: -9223372036854775808}}
train: {epochs: 5, batch_size: 1}
optimizer: {type: adam}
`

func jobTexts() []string { return []string{tiny, gptText, programText, imageText, synthText} }

func TestRoundTrip(t *testing.T) {
	for _, text := range jobTexts() {
		checkAgain(t, mustLoad(t, text))
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	j := mustLoad(t, tiny)
	if err := j.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if k, err := Load(path, nil); err != nil || !reflect.DeepEqual(j, k) {
		t.Errorf("%+v %v", k, err)
	}
	j.Name = "\xff"
	if err := j.Write(new(bytes.Buffer)); err == nil {
		t.Error("a name that is not UTF-8 was written")
	}
}

// TestRandomJobs changes every field of some jobs at random.
func TestRandomJobs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for i := range 200 {
		s := &source{name: "/d/job.yaml", dir: "/d", cwd: "/c"}
		j, ps := s.load([]byte(jobTexts()[i%len(jobTexts())]))
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		kind := training
		if j.Program != nil {
			kind = launching
		}
		shake(rng, jobSection(j, kind))
		if _, err := again(j); err != nil {
			for _, sign := range []string{"not valid YAML", "unknown key", ", got the text", "job: "} {
				if strings.Contains(err.Error(), sign) {
					t.Fatal(err)
				}
			}
			continue // its keys contradict each other
		}
		accepted++
		checkAgain(t, j)
	}
	if accepted < 50 {
		t.Errorf("only %d of 200 random jobs were accepted", accepted)
	}
}

// shake gives fields of a section random values that each are allowed.
func shake(rng *rand.Rand, s *section) {
	for i, f := range s.fields {
		if !s.has(f) || i == 0 && s.kind != nil {
			continue
		}
		switch v := f.val.(type) {
		case *section:
			shake(rng, v)
			continue
		case interface{ present() *section }:
			if inner := v.present(); inner != nil {
				shake(rng, inner)
			}
			continue
		}
		if rng.IntN(10) > 0 {
			continue
		}
		switch v := f.val.(type) {
		case whole:
			*v.at = v.min + rng.IntN(min(v.max-v.min, 1000))
		case seed:
			*v.at = int64(rng.Uint64())
		case real:
			if x := math.Ldexp(rng.Float64(), rng.IntN(40)-38); v.ok(x) {
				*v.at = x
			}
		case truth:
			*v.at = rng.IntN(2) == 0
		case text:
			*v.at = randomText(rng)
		case path:
			if !v.empty || rng.IntN(2) == 0 {
				*v.at = filepath.Join("/p", randomText(rng))
			}
		case jobName:
			*v.at = "x" + strings.Map(printable, randomText(rng)) + "x"
		case choice:
			if later := unsupported(f.key, *v.at, v.words); later == "" && len(notYet(f.key)) == 0 {
				*v.at = v.words[rng.IntN(len(v.words))]
			}
		case duration:
			*v.at = 0 // no other span is available yet
		case rows:
			from := rng.IntN(100)
			*v.at = RowRange{from, from + 1 + rng.IntN(100), true}
		case betas:
			*v.at = [2]float64{rng.Float64(), rng.Float64()}
		case command:
			*v.at = []string{"x" + randomText(rng), randomText(rng), randomText(rng)}
		case environment:
			*v.at = map[string]string{"x" + strings.ReplaceAll(randomText(rng), "=", ""): randomText(rng)}
		}
	}
}

func printable(r rune) rune {
	if isJobName(string(r)) {
		return r
	}
	return '_'
}

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	alphabet := []rune("abc019 .:-#'\"\\{}[],&*!|>%@`~?=/\n\r\t\u0085\u00a0\u2028\ufeff\U0001f600\x01\x7f")
	for range rng.IntN(12) {
		b.WriteRune(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

func TestDigest(t *testing.T) {
	base := mustLoad(t, imageText)
	for _, same := range []string{"train.epochs=9", "train.batch_size=3", "optimizer.lr=1", "model.init.seed=3", "data.path=/moved/set", "launch.nproc_per_node=8", "checkpoint.keep=1", "name=x", "data.eval_rows=0:4"} {
		if j := mustLoad(t, imageText, same); j.Digest() != base.Digest() || len(Diff(base, j)) > 0 {
			t.Errorf("%s: %v", same, Diff(base, j))
		}
	}
	for set, want := range map[string]string{
		"sampler.seed=1":              "sampler.seed: 0 -> 1",
		"model.layers.9.bias=false":   "model.layers.9.bias: true -> false",
		"data.train_rows=5:9":         "data.train_rows: 5:10 -> 5:9",
		"data.idx.images=z":           "data.idx.images: a -> z",
		"optimizer.type=adam":         "optimizer.type: sgd -> adam",
		"model.layers.3={op: relu}":   "model.layers.3.op: gelu -> relu",
		"model.layers.1.name=first":   "model.layers.1.name: not set -> first",
		"model.layers.8={op: gelu}":   "model.layers.8.op: dropout -> gelu; model.layers.8.p: 0.25 -> not set",
		"data.idx.scale=1":            "data.idx.scale: 0.00392156862745098 -> 1",
		"model.layers.2.momentum=0.1": "model.layers.2.momentum: 0.2 -> 0.1",
	} {
		j := mustLoad(t, imageText, set)
		if got := strings.Join(Diff(base, j), "; "); got != want || j.Digest() == base.Digest() {
			t.Errorf("%s:\n got %s\nwant %s", set, got, want)
		}
	}
	// Jobs that no file gave must not end the program.
	if d := Diff(&Job{}, &Job{Model: &Model{}, Data: &Data{}, Program: &Program{}}); len(d) == 0 {
		t.Error("no difference")
	}
}

// FuzzLoad feeds texts and overrides to the loader: it never panics, and a job
// that it accepts can be written and is loaded as the same.
func FuzzLoad(f *testing.F) {
	for _, text := range jobTexts() {
		f.Add([]byte(text), "train.epochs=3")
	}
	bad, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range bad {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "model.layers.0={op: relu}")
	}
	f.Add([]byte("a: &a [*a]\n<<: {x: *a}"), "a.0=[&x 1, *x]")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		if len(text) > maxFile {
			return
		}
		s := &source{name: "job.yaml", dir: "/d", cwd: "/c", sets: []string{set}}
		j, ps := s.load(text)
		if len(ps) > 0 {
			if report := s.report(ps); strings.Count(report.Error(), "\n") != len(report)-1 {
				t.Errorf("not one line a problem: %q", report.Error())
			}
			return
		}
		var b bytes.Buffer
		if err := j.Write(&b); err != nil {
			return // too large
		}
		checkAgain(t, j)
	})
}

// TestWrittenForm pins what a person finds in the run directory.
func TestWrittenForm(t *testing.T) {
	s := &source{name: "/d/job.yaml", dir: "/d", cwd: "/c"}
	j, ps := s.load([]byte(imageText))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	var b bytes.Buffer
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden := "testdata/written.yaml"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got:\n%s", b.String())
	}
	var any map[string]yaml.Node
	if err := yaml.Unmarshal(want, &any); err != nil {
		t.Errorf("not YAML for others: %v", err)
	}
}

// TestExamples loads every job of the repository; the data that lies beside them
// must be there.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		j, err := Load(file, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		checkAgain(t, j)
		if j.Data == nil {
			continue
		}
		for _, path := range []string{j.Data.Path, j.Data.EvalPath} {
			if !strings.Contains(path, "examples") {
				continue
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
