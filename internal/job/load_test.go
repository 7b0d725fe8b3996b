package job

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/job-file.md")

const tiny = `name: tiny
device: cpu
model: {type: sequential, layers: [{op: linear, name: a, in: 1, out: 8}, {op: relu}, {op: linear, name: b, in: 8, out: 2}]}
data: {type: csv, path: ids.csv, csv: {features: "0:1", label: 1}}
sampler: {shuffle: false, seed: 3}
train: {epochs: 2, batch_size: 4}
optimizer: {type: sgd, lr: 0.01}
checkpoint: {dir: ck, every_steps: 1}
`

// write puts a job file into a folder of its own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, text string, sets ...string) *Job {
	t.Helper()
	j, err := Load(write(t, "job.yaml", text), sets)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// problems is the report for a text, with the folder of the file cut off.
func problems(t *testing.T, text string, sets ...string) string {
	t.Helper()
	path := write(t, "job.yaml", text)
	_, err := Load(path, sets)
	if err == nil {
		return ""
	}
	var ps Problems
	if !errors.As(err, &ps) || exitcode.Of(err) != exitcode.Usage {
		t.Fatalf("%T with exit code %d: %v", err, exitcode.Of(err), err)
	}
	return strings.ReplaceAll(err.Error(), path, "job.yaml")
}

func TestDefaults(t *testing.T) {
	path := write(t, "tiny.yaml", strings.Replace(tiny, "name: tiny\n", "", 1))
	dir := filepath.Dir(path)
	j, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{
		Name:      "tiny",
		Launch:    Launch{NprocPerNode: "1", NNodes: "1"},
		Device:    "cpu",
		Precision: "fp32",
		Model: &Model{Type: "sequential", Layers: []Layer{
			{Op: "linear", Name: "a", In: 1, Out: 8, Bias: true}, {Op: "relu"}, {Op: "linear", Name: "b", In: 8, Out: 2, Bias: true},
		}},
		Data: &Data{
			Type: "csv", Path: filepath.Join(dir, "ids.csv"),
			CSV: &CSV{Features: RowRange{0, 1, true}, Label: 1, Scale: 1},
		},
		Loader:     Loader{Workers: 2, PrefetchFactor: 2, PinMemory: true, PersistentWorkers: true},
		Sampler:    Sampler{Seed: 3},
		Train:      &Train{Epochs: 2, BatchSize: 4, Accumulate: 1, LogEvery: 10, EvalEvery: 1},
		Loss:       "cross_entropy",
		Optimizer:  Optimizer{Type: "sgd", LR: 0.01, Decay: "all"},
		Schedule:   Schedule{Type: "constant"},
		DDP:        DDP{Backend: "auto", BucketCapMB: 25, FirstBucketMB: 1, GradientCompression: "none", BroadcastBuffers: true},
		AMP:        AMP{InitScale: 65536, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000},
		Checkpoint: Checkpoint{Dir: filepath.Join(dir, "ck"), EverySteps: 1, EveryEpochs: 1, Keep: 3, Resume: "auto"},
		Debug:      Debug{Collectives: "off"},
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got  %+v\nwant %+v", j, want)
	}
}

// TestDefaultsOfKinds has the values of torch.optim and torch.nn.
func TestDefaultsOfKinds(t *testing.T) {
	adam := Optimizer{Type: "adam", LR: 1e-3, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, Decay: "all"}
	adamw := adam
	adamw.Type, adamw.WeightDecay = "adamw", 0.01
	for kind, want := range map[string]Optimizer{"adam": adam, "adamw": adamw} {
		if got := mustLoad(t, tiny, "optimizer={type: "+kind+"}").Optimizer; got != want {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	for text, want := range map[string]Layer{
		"op: conv2d, in: 1, out: 2, kernel: 3":         {Op: "conv2d", In: 1, Out: 2, Kernel: 3, Stride: 1, Bias: true},
		"op: batchnorm2d, features: 4":                 {Op: "batchnorm2d", Features: 4, Eps: 1e-5, Momentum: 0.1},
		"op: layernorm, features: 4":                   {Op: "layernorm", Features: 4, Eps: 1e-5},
		"op: dropout":                                  {Op: "dropout", P: 0.5},
		"op: maxpool2d, kernel: 3":                     {Op: "maxpool2d", Kernel: 3, Stride: 3},
		"op: avgpool2d, kernel: 3, stride: 2":          {Op: "avgpool2d", Kernel: 3, Stride: 2},
		"op: linear, in: 4, out: 2, bias: false":       {Op: "linear", In: 4, Out: 2},
		"op: reshape, shape: [1, 8, 8]":                {Op: "reshape", Shape: []int{1, 8, 8}},
		"op: embedding, vocab: 256, width: 4, name: e": {Op: "embedding", Vocab: 256, Width: 4, Name: "e"},
	} {
		var l Layer
		s := source{name: "layer"}
		root, ps := s.parse([]byte("{" + text + "}"))
		d := newDecoder(&s, root)
		layerSection(&l).decode(d, root, "")
		if len(ps)+len(d.problems) > 0 || !reflect.DeepEqual(l, want) {
			t.Errorf("%s: %+v %v %v", text, l, ps, d.problems)
		}
	}
	gpt := "model: {type: gpt2, layers: 2, heads: 2, width: 8, context: 16, vocab: 256}\ndata: {type: bytes, path: x, block: 16}\ntrain: {steps: 5, batch_size: 1}\noptimizer: {type: adamw}\n"
	j := mustLoad(t, gpt)
	if m := j.Model; m.Depth != 2 || !m.TieHead || m.Layers != nil {
		t.Errorf("gpt2: %+v", m)
	}
	if j.Train.EvalEvery != 0 {
		t.Errorf("with steps: eval_every %d, want 0", j.Train.EvalEvery)
	}
	if s := mustLoad(t, gpt, "schedule={type: step, step_size: 3}").Schedule; s.Gamma != 0.1 {
		t.Errorf("schedule step: gamma %g, want 0.1", s.Gamma)
	}
}

// TestYAMLTraps is a list of traps from public bug reports: marks and line ends
// of editors, equal keys, mistyped keys, bombs, odd spellings of numbers.
func TestYAMLTraps(t *testing.T) {
	plain := mustLoad(t, tiny).Digest()
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + tiny,
		"carriage return": strings.ReplaceAll(tiny, "\n", "\r\n"),
		"document marks":  "---\n" + tiny + "...\n",
	} {
		if mustLoad(t, text).Digest() != plain {
			t.Errorf("%s: another job", name)
		}
	}
	for _, c := range []struct{ text, want string }{
		{tiny + "batch_size: 400\n", "job.yaml:9:1: batch_size: unknown key (did you mean train.batch_size, which line 6 sets?)"},
		{tiny + "device: cpu\n", "job.yaml:9:1: device: duplicate key (first in line 2)"},
		{strings.Replace(tiny, "batch_size: 4", "batchsize: 4, batch_size: 4", 1), "job.yaml:6:20: train.batchsize: unknown key (did you mean batch_size?)"},
		{tiny + "---\nbatch_size: 9\n", "job.yaml:9: a second document begins here, a job file has one (is there a --- too many?)"},
		{"", "job.yaml: the file is empty: a job has at least a program, or model, data, train and optimizer"},
		{"# nothing\n", "job.yaml: the file is empty: a job has at least a program, or model, data, train and optimizer"},
		{"- a\n", "job.yaml:1:1: a job file is a mapping (key: value), this is a list"},
		{"name: \x01\n", "job.yaml:1:7: control character 0x01 in the text"},
		{"name: x\nloss: \xff\n", "job.yaml:2:7: byte 0xff is not UTF-8 text"},
		{"x: *y\n", "job.yaml:1: not valid YAML: unknown anchor 'y' referenced"},
		{"x: &x [*x]\n", "job.yaml:1:8: x.0: the alias *x contains itself"},
		{"x: &x {<<: *x}\n", "job.yaml:1:12: x: the alias *x contains itself"},
		{"name: [\ndevice: cpu\n", "job.yaml:2: not valid YAML: did not find expected ',' or ']'"},
		{"name: x\ntrain:\n\tepochs: 3\n", "job.yaml:3: not valid YAML: found character that cannot start any token (YAML does not allow tabs for indentation)"},
		{"x: " + strings.Repeat("[", 200_000), "job.yaml: not valid YAML: exceeded max depth of 10000"},
		{"x: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "job.yaml:1:36: nested deeper than 32 levels"},
	} {
		if got := problems(t, c.text); got != c.want {
			t.Errorf("%.60q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	const refused = "job.yaml:6:32: train.batch_size: wants a whole number from 1, got "
	for text, want := range map[string]string{
		"4": "", "4.5": "4.5", `"4"`: `the text "4" (without quotes)`, "-1": "-1", "0": "0", "-0": "-0",
		"1e3": "1e3 (" + decimalHint + ")", "0x10": "0x10 (" + decimalHint + ")", "010": "010 (" + decimalHint + ")",
		"1_0": "1_0 (" + decimalHint + ")", "+4": "+4 (" + decimalHint + ")", "yes": "yes", "true": "true", "[4]": "a list",
		"99999999999999999999": "99999999999999999999 (it does not fit into 64 bits)",
		"2147483648":           "2147483648 (the largest is 2147483647)",
	} {
		got := problems(t, strings.Replace(tiny, "batch_size: 4", "batch_size: "+text, 1))
		if want != "" {
			want = refused + want
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	for _, null := range []string{"~", "null", ""} {
		got := problems(t, strings.Replace(tiny, "batch_size: 4", "batch_size: "+null, 1))
		if !strings.HasSuffix(got, "train.batch_size: has no value: wants a whole number from 1") {
			t.Errorf("%q: %s", null, got)
		}
	}
	for text, want := range map[string]float64{"1e-3": 1e-3, "0.5": 0.5, ".5": 0.5, "1": 1, "1.": 1, "2E+1": 20, "-0.0": 0, "1e300": 1e300} {
		if got := mustLoad(t, tiny, "optimizer.lr="+text).Optimizer.LR; got != want {
			t.Errorf("%s: %g", text, got)
		}
	}
	for _, text := range []string{".nan", ".inf", "NaN", "inf", "-1", "1e999", "1e-400", "0x1p3", "01.5", "1_0.0", `"0.1"`, "0,1", "true"} {
		if got := problems(t, tiny, "optimizer.lr="+text); !strings.Contains(got, "optimizer.lr: wants a number from 0, got ") {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestBombs bounds the memory that a small file can take.
func TestBombs(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		a := "*a" + string(rune('0'+i))
		aliases.WriteString("a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(a+",", 8) + a + "]\n")
	}
	var merges strings.Builder
	merges.WriteString("a0: &a0 {x: 1}\n")
	for i := range 9 {
		a := "*a" + string(rune('0'+i))
		merges.WriteString("a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " {<<: [" + strings.Repeat(a+",", 8) + a + "]}\n")
	}
	for name, text := range map[string]string{
		"aliases": aliases.String(),
		"merges":  merges.String(),
		"many":    "x: [" + strings.Repeat("a,", maxFile/2-10) + "a]",
		"keys":    "? " + strings.Repeat("? ", 100_000),
		"unknown": strings.Repeat("a: {}\nb: {}\n", 20_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := problems(t, text)
		runtime.ReadMemStats(&after)
		if got == "" || strings.Count(got, "\n") > maxProblems {
			t.Errorf("%s: %.200q", name, got)
		}
		if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent > 200 {
			t.Errorf("%s: took %d MiB", name, spent)
		}
	}
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := write(t, "large.yaml", strings.Repeat("#\n", maxFile/2+1))
	for path, want := range map[string]string{
		dir:                              "is a folder, a job file is wanted",
		pipe:                             "is a named pipe, a job file must be a regular file",
		"/dev/zero":                      "is a device, a job file must be a regular file",
		filepath.Join(dir, "none.yaml"):  "no such file",
		filepath.Join(pipe, "none.yaml"): "not a directory",
		large:                            "is larger than 262144 bytes: not a job file",
	} {
		_, err := Load(path, nil)
		if err == nil || err.Error() != path+": "+want || exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAnchors(t *testing.T) {
	j := mustLoad(t, `
model:
  type: sequential
  layers:
    - &hidden {op: linear, in: 4, out: 4}
    - &act {op: relu}
    - *hidden
    - *act
    - {<<: *hidden, name: last, out: 2}
data: {type: synthetic, synthetic: {samples: 8, shape: [4], classes: 2}}
train: {epochs: 1, batch_size: 2}
optimizer: {type: sgd, lr: 0.1}
`, "model.layers.2.bias=false")
	l := j.Model.Layers
	if !reflect.DeepEqual(l[4], Layer{Op: "linear", Name: "last", In: 4, Out: 2, Bias: true}) || l[2].Bias || !l[0].Bias || l[3].Op != "relu" {
		t.Errorf("%+v", l)
	}
}
