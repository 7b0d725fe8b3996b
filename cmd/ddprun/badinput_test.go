package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/testkit"
	"github.com/ddprun/ddprun/worker/checkpoint"
)

// attempt runs a job that may fail.
func attempt(t *testing.T, logs, job string, flags ...string) testkit.Result {
	t.Helper()
	return testkit.Command{Args: append([]string{testkit.Binary(t), "--log-dir", logs, "--rdzv-id", "run", job}, flags...)}.Run(t)
}

// refusedOnce wants an exit code, and a message of one line that holds words
// and is said by nobody else.
func refusedOnce(t *testing.T, r testkit.Result, code int, words ...string) {
	t.Helper()
	r.Want(t, code)
	said := 0
	for line := range strings.Lines(r.Stdout + "\n" + r.Stderr) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			said++
			if !strings.HasPrefix(line, "ddprun: ") {
				t.Errorf("the message is not the launcher's: %s", line)
			}
		}
	}
	if said != 1 {
		t.Errorf("%d lines have %q, want one:\n%s", said, words, r)
	}
}

// digits is the table of the example, as text.
func digits(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "golden", "digits.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

// withField is the table with one field replaced; line counts from 1.
func withField(rows []string, line, column int, value string) []byte {
	fields := strings.Split(strings.TrimSuffix(rows[line-1], "\n"), ",")
	fields[column] = value
	return []byte(strings.Join(rows[:line-1], "") + strings.Join(fields, ",") + "\n" + strings.Join(rows[line:], ""))
}

func TestBadDataFile(t *testing.T) {
	rows := digits(t)
	packed, err := os.ReadFile(filepath.Join("testdata", "golden", "digits.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	const missing = "missing"
	for _, c := range []struct {
		name    string
		content []byte
		place   string // behind the file's name
		words   string
	}{
		{missing, nil, "", "no such file"},
		{"empty", []byte{}, "", "the file is empty"},
		{"cut", []byte(strings.Join(rows, "")[:20000]), ":", "the rows before it have 65"},
		{"cut gzip", packed[:30000], "", "the gzip data is cut off or damaged"},
		{"wrong kind", []byte("# a text\n\nwith words\n"), ":1: column 0", "is not a number"},
		{"label out of range", withField(rows, 7, 64, "10"), ":7", "label 10 is out of range: the model's last layer has 10 classes"},
		{"label is negative", withField(rows, 7, 64, "-1"), ":7: column 64", "label"},
		{"NaN", withField(rows, 9, 2, "nan"), ":9: column 2", "is not a finite number"},
		{"infinity", withField(rows, 1437, 2, "-Inf"), ":1437: column 2", "is not a finite number"},
		{"field missing", withField(rows, 3, 2, ""), ":3: column 2", `"" is not a number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "d.csv")
			if c.name != missing {
				if err := os.WriteFile(path, c.content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r := attempt(t, t.TempDir(), jobFile("mlp"), sets("data.path="+path)...)
			refusedOnce(t, r, exitcode.Data, path+c.place, c.words)
		})
	}
}

func TestBadImagesAndTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	images := file("images", append([]byte{0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2}, make([]byte, 16)...))
	labels := file("labels", append([]byte{0, 0, 8, 1, 0, 0, 0, 4}, 0, 1, 2, 1))
	short := file("short", append([]byte{0, 0, 8, 1, 0, 0, 0, 4}, 0, 1, 2))
	high := file("high", append([]byte{0, 0, 8, 1, 0, 0, 0, 4}, 0, 1, 2, 3))
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 20240520), 1), 100)
	tokens := append(append(head, make([]byte, 1024-len(head))...), make([]byte, 200)...)
	cut := file("cut.bin", tokens[:len(tokens)-2])
	binary.LittleEndian.PutUint16(tokens[1024+2*57:], 300)
	vocabulary := file("vocabulary.bin", tokens)
	for _, c := range []struct {
		name, job string
		set       []string
		words     []string
	}{
		{"swapped", "idx", []string{"data.idx.images=" + labels, "data.idx.labels=" + images}, []string{labels, "1 dimension"}},
		{"labels cut", "idx", []string{"data.idx.images=" + images, "data.idx.labels=" + short}, []string{short, "3 bytes follow"}},
		{"label out of range", "idx", []string{"data.idx.images=" + images, "data.idx.labels=" + high}, []string{high, "label 3 of sample 3 is out of range"}},
		{"tokens cut", "tokens", []string{"data.path=" + cut}, []string{cut, "100 tokens, which makes 1224 bytes, but it has 1222"}},
		{"token out of range", "tokens", []string{"data.path=" + vocabulary}, []string{vocabulary, "token 57 has the value 300"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refusedOnce(t, attempt(t, t.TempDir(), jobFile(c.job), sets(c.set...)...), exitcode.Data, c.words...)
		})
	}
}

func TestRowsThatCannotBe(t *testing.T) {
	path := absolute(t, filepath.Join("testdata", "golden", "digits.csv.gz"))
	for _, c := range []struct {
		name  string
		set   []string
		code  int
		words []string
	}{
		{"more ranks than samples, dropped", []string{"data.train_rows=0:3", "sampler.drop_last=true"}, exitcode.Data, []string{path, "sampler.drop_last", "samples: 3, world size: 4"}},
		{"no full batch", []string{"data.train_rows=0:100", "loader.drop_last=true"}, exitcode.Data, []string{path, "loader.drop_last", "each rank has 25 samples"}},
		{"none", []string{"data.train_rows=3:3"}, exitcode.Usage, []string{"data.train_rows", "3:3"}},
		{"beyond the end", []string{"data.train_rows=1700:1900"}, exitcode.Data, []string{path, "data.train_rows is 1700:1900", "0:1797"}},
		{"evaluation beyond the end", []string{"data.eval_rows=1797:1798"}, exitcode.Data, []string{path, "data.eval_rows is 1797:1798", "0:1797"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refusedOnce(t, attempt(t, t.TempDir(), jobFile("mlp"), sets(c.set...)...), c.code, c.words...)
		})
	}
}

// By default the sampler repeats samples until each rank has one.
func TestMoreRanksThanSamples(t *testing.T) {
	run := train(t, jobFile("mlp"), sets("data.train_rows=0:3", "train.epochs=2")...)
	if n := len(run.metrics.Steps); n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
}

func TestWorldOfOne(t *testing.T) {
	for _, job := range []string{"mlp", "cnn", "gpt"} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			run := train(t, jobFile(job), "--nproc-per-node", "1")
			first, last := run.metrics.Steps[0], run.metrics.Steps[len(run.metrics.Steps)-1]
			if len(last.LossPerRank) != 1 || !(last.Loss < first.Loss) {
				t.Errorf("loss goes from %v to %v (%d ranks)", first.Loss, last.Loss, len(last.LossPerRank))
			}
		})
	}
}

func TestCheckpointOfAnotherModel(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	attempt(t, logs, jobFile("mlp"), sets("train.epochs=1")...).Want(t, 0)
	ck := filepath.Join(logs, "run", "checkpoints", "step-00000011")
	before := readFile(t, filepath.Join(ck, "model.safetensors"))
	r := attempt(t, logs, jobFile("mlp"), sets("model.layers.0.out=16", "model.layers.2.in=16")...)
	refusedOnce(t, r, exitcode.Checkpoint, ck, "fc1.weight", "[32 64]", "[16 64]")
	if strings.Contains(r.Stdout, "step 10/") {
		t.Errorf("it was trained:\n%s", r)
	}
	r = attempt(t, logs, jobFile("mlp"), sets("optimizer={type: adam}")...)
	refusedOnce(t, r, exitcode.Checkpoint, ck, "made with optimizer sgd", "adam")
	if !bytes.Equal(before, readFile(t, filepath.Join(ck, "model.safetensors"))) {
		t.Error("the checkpoint has changed")
	}
}

func TestDamagedCheckpoints(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	set := sets("train.epochs=2", "checkpoint.every_steps=5", "checkpoint.keep=9")
	attempt(t, logs, jobFile("mlp"), set...).Want(t, 0)
	folder := filepath.Join(logs, "run", "checkpoints")
	found, err := checkpoint.List(folder)
	if err != nil || len(found) < 3 {
		t.Fatalf("%v, %v", found, err)
	}
	whole := t.TempDir()
	if err := os.CopyFS(whole, os.DirFS(found[0].Path)); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(found[0].Path, "model.safetensors"))
	if err := os.Truncate(filepath.Join(found[1].Path, "optimizer.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	r := attempt(t, logs, jobFile("mlp"), set...).Want(t, 0)
	for path, why := range map[string]string{found[0].Path: "checksum", found[1].Path: "100 bytes"} {
		if n := linesWith(r.Stderr, "WARN", path, why); n != 1 {
			t.Errorf("%d warnings say that %s is passed over (%s)\n%s", n, path, why, r.Stderr)
		}
	}
	if !strings.Contains(r.Stdout, "of "+found[2].Path) {
		t.Errorf("the run does not go on from %s:\n%s", found[2].Path, r.Stdout)
	}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		if !bytes.Equal(readFile(t, filepath.Join(whole, name)), readFile(t, filepath.Join(found[0].Path, name))) {
			t.Errorf("%s is not what it was before the damage", name)
		}
	}

	for _, c := range mustList(t, folder) {
		flip(t, filepath.Join(c.Path, "model.safetensors"))
	}
	r = attempt(t, logs, jobFile("mlp"), set...)
	refusedOnce(t, r, exitcode.Checkpoint, "none of the", folder, "is whole", "checkpoint.resume: none")
	r = attempt(t, logs, jobFile("mlp"), sets("checkpoint.resume="+found[2].Path)...)
	refusedOnce(t, r, exitcode.Checkpoint, found[2].Path, "checksum")
}

func mustList(t *testing.T, folder string) []checkpoint.Entry {
	t.Helper()
	found, err := checkpoint.List(folder)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b := readFile(t, path)
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func linesWith(text string, words ...string) int {
	n := 0
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// Root may write everywhere, but not below a file.
func TestFoldersThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "x")
	refusedOnce(t, attempt(t, below, jobFile("mlp")), exitcode.Machine, below, "not a directory", "--log-dir")
	logs := t.TempDir()
	r := attempt(t, logs, jobFile("mlp"), sets("checkpoint.dir="+below)...)
	refusedOnce(t, r, exitcode.Checkpoint, "checkpoint.dir", below, "not a directory")
	r = attempt(t, logs, jobFile("mlp"), sets("debug.trace_samples="+below)...)
	refusedOnce(t, r, exitcode.Machine, "debug.trace_samples", below, "not a directory")
	noSteps(t, filepath.Join(logs, "run"))
}

// noSteps wants that a run has not trained.
func noSteps(t *testing.T, runDir string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(runDir, "metrics.jsonl")); err == nil && len(text) > 0 {
		t.Errorf("there are steps: %s", text)
	}
}

// A job file with a mistake starts nothing and leaves nothing behind.
func TestBadJobFile(t *testing.T) {
	dir := t.TempDir()
	text := string(readFile(t, jobFile("mlp")))
	for _, c := range []struct {
		name, text string
		words      []string
	}{
		{"typo", strings.Replace(text, "momentum", "momentun", 1), []string{":18:33", "momentun", "momentum"}},
		{"twice", text + "device: cpu\n", []string{"device"}},
		{"not YAML", text + "\t]", nil},
		{"nothing", "", nil},
		{"layers that do not fit", strings.Replace(text, "in: 32", "in: 33", 1), []string{"model.layers.2.in", "33", "gives 32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, c.name+".yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			logs := filepath.Join(t.TempDir(), "runs")
			refusedOnce(t, attempt(t, logs, path), exitcode.Usage, append(c.words, path)...)
			if _, err := os.Stat(logs); err == nil {
				t.Error("a run directory was made")
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		logs := filepath.Join(t.TempDir(), "runs")
		path := filepath.Join(dir, "missing.yaml")
		refusedOnce(t, attempt(t, logs, path), exitcode.Usage, path)
		if _, err := os.Stat(logs); err == nil {
			t.Error("a run directory was made")
		}
	})
}

func TestNoGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		t.Skip("this machine has a GPU")
	}
	r := attempt(t, filepath.Join(t.TempDir(), "runs"), jobFile("mlp"), sets("device=cuda")...)
	refusedOnce(t, r, exitcode.Machine, "cuda")
}

func TestPrecisionOfAGPUOnTheCPU(t *testing.T) {
	logs := t.TempDir()
	r := attempt(t, logs, filepath.Join("testdata", "golden", "mlp_digits.yaml"), "--set", "precision=tf32")
	refusedOnce(t, r, exitcode.Usage, "precision: tf32 needs a GPU")
	if _, err := os.Stat(filepath.Join(logs, "run")); err == nil {
		t.Error("a run directory was made")
	}
}

// A run whose numbers are no numbers any more ends, says at which step, and
// saves none of it.
func TestDivergedRun(t *testing.T) {
	for _, c := range []struct {
		name, job string
		set       []string
		words     []string
	}{
		{"loss", "mlp", []string{"optimizer.lr=1e30"}, []string{"step 1", "the loss of rank 0 is NaN", "optimizer.lr"}},
		{"loss of a world of one", "mlp", []string{"optimizer.lr=1e30", "launch.nproc_per_node=1"}, []string{"step 1", "the loss of rank 0 is NaN", "optimizer.lr"}},
		{"weights", "mlp", []string{"optimizer.lr=3e38", "optimizer.weight_decay=1e4"}, []string{"step 1", "fc1.weight is no finite number", "not saved", "optimizer.lr"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			r := attempt(t, logs, jobFile(c.job), append(sets(c.set...), sets("checkpoint.every_steps=1")...)...)
			refusedOnce(t, r, exitcode.Failure, c.words...)
			for _, ck := range mustList(t, filepath.Join(logs, "run", "checkpoints")) {
				f := openTensors(t, filepath.Join(ck.Path, "model.safetensors"))
				for _, name := range f.Names() {
					for i, v := range readFloats(t, f, name) {
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
							t.Fatalf("%s: %s[%d] = %v was saved", ck.Path, name, i, v)
						}
					}
				}
			}
		})
	}
}

// The launcher's summary has the cause as well.
func TestSummaryNamesTheCause(t *testing.T) {
	logs := t.TempDir()
	attempt(t, logs, jobFile("mlp"), sets("data.train_rows=1700:1900")...).Want(t, exitcode.Data)
	var summary map[string]any
	if err := json.Unmarshal(readFile(t, filepath.Join(logs, "run", "summary.json")), &summary); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(summary); !strings.Contains(text, "digits.csv.gz: data.train_rows is 1700:1900") {
		t.Errorf("summary.json does not say why: %s", text)
	}
}

// A file that gets shorter under a running job ends it, with the file's name.
func TestTokensThatShrink(t *testing.T) {
	t.Parallel()
	dir, logs := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "live.bin")
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 20240520), 1), 1000)
	if err := os.WriteFile(path, append(head, make([]byte, 1024-len(head)+2000)...), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{testkit.Binary(t), "--log-dir", logs, "--rdzv-id", "run", "--max-restarts", "3", jobFile("tokens")},
		sets("data.path="+path, "train.epochs=100000", "checkpoint.every_epochs=0")...)
	p := testkit.Command{Args: args}.Start(t)
	p.WaitFor("epoch 1 ")
	if err := os.Truncate(path, 1100); err != nil {
		t.Fatal(err)
	}
	refusedOnce(t, p.Wait(), exitcode.Data, path, "has shrunk")
}
