package job

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestOverrides(t *testing.T) {
	j := mustLoad(t, strings.Replace(tiny, "checkpoint: {dir: ck, every_steps: 1}", "checkpoint:", 1),
		"train.batch_size=8", "train.batch_size=16", "model.layers.0.out=256", "model.layers.2.in=256",
		"optimizer={type: adamw, betas: [0.9, 0.95]}", "checkpoint.keep=5", "loader.workers=0", "name=a #b: c",
		"train.steps=7", "debug.collectives=off", `data.csv.features="0:1"`)
	if j.Train.BatchSize != 16 || j.Model.Layers[0].Out != 256 || j.Model.Layers[2].In != 256 || j.Checkpoint.Keep != 5 || j.Loader.Workers != 0 {
		t.Errorf("%+v", j)
	}
	if j.Name != "a #b: c" {
		t.Errorf("name %q: an override is taken as it is written", j.Name)
	}
	if j.Optimizer.Betas != [2]float64{0.9, 0.95} || j.Optimizer.LR != 1e-3 {
		t.Errorf("%+v", j.Optimizer)
	}
	if j.Train.Steps != 7 || j.Train.Epochs != 0 {
		t.Errorf("%+v: an override of steps replaces the epochs of the file", j.Train)
	}
	back := mustLoad(t, strings.Replace(tiny, "epochs: 2", "steps: 2", 1), "train.epochs=3").Train
	if back.Steps != 0 || back.Epochs != 3 {
		t.Errorf("%+v: an override of epochs replaces the steps of the file", back)
	}
}

func TestBadOverrides(t *testing.T) {
	for _, c := range [][2]string{
		{"train.batch_size=x", "--set train.batch_size=x: train.batch_size: wants a whole number from 1, got x"},
		{"train.batchsize=3", "--set train.batchsize=3: train.batchsize: unknown key (did you mean batch_size?)"},
		{"checkpoint=null", "--set checkpoint=null: checkpoint: has no value: remove it, or write {} for a section without keys"},
		{"data.path=", "--set data.path=: data.path: has no value: wants a path"},
		{"nonsense", "--set nonsense: an override is written key.path=value"},
		{"=3", "--set =3: an override is written key.path=value"},
		{"train..epochs=3", "--set train..epochs=3: train..epochs: train has an empty name in its path"},
		{"model.layers.3.out=4", "--set model.layers.3.out=4: model.layers.3.out: model.layers is a list of 3, counted from 0: there is no item 3"},
		{"train.batch_size.x=4", "--set train.batch_size.x=4: train.batch_size.x: train.batch_size is 4: there are no keys in it"},
		{"train={epochs: 1", "--set train={epochs: 1: train: not valid YAML: did not find expected ',' or '}'"},
		{"name=\"a\": b", "--set name=\"a\": b: name: a mapping is written {key: value} here"},
		{"train={epochs: 1, epochs: 2, batch_size: 1}", "--set train={epochs: 1, epochs: 2, batch_size: 1}: train.epochs: duplicate key (first in --set train={epochs: 1, epochs: 2, batch_size: 1})"},
		{"name=\xff", "--set name=\ufffd: name: byte 0xff is not UTF-8 text"},
		{"train={epochs: 1}", "--set train={epochs: 1}: train.batch_size: missing: wants a whole number from 1"},
		{"model.layers.0.out=4", "job.yaml:3:112: model.layers.2.in: is 8, but layer 1 (relu) gives 4"},
	} {
		if got := problems(t, tiny, c[0]); got != c[1] {
			t.Errorf("%s:\n got %s\nwant %s", c[0], got, c[1])
		}
	}
	got := problems(t, tiny+"nmae: x\n", "train.epochs=x", "train.steps=3", "device=gpu")
	want := `job.yaml:9:1: nmae: unknown key (did you mean name?)
--set train.epochs=x: train.epochs: wants a whole number from 1, got x
--set device=gpu: device: wants one of auto, cpu, cuda, got gpu (did you mean cpu?)`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestPaths(t *testing.T) {
	cwd := t.TempDir()
	t.Chdir(cwd)
	if err := os.Mkdir("jobs", 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(tiny, "every_steps: 1", "resume: old/step-3", 1) + "debug: {trace_samples: \"tr.%RANK%\"}\n"
	if err := os.WriteFile("jobs/job.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	j, err := Load("jobs/job.yaml", []string{"model.init.from=w.safetensors", "data.eval_path=/abs/../e.csv", "checkpoint.dir=~/x"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{j.Data.Path, j.Data.EvalPath, j.Model.Init.From, j.Checkpoint.Dir, j.Checkpoint.Resume, j.Debug.TraceSamples}
	want := []string{cwd + "/jobs/ids.csv", "/e.csv", cwd + "/w.safetensors", cwd + "/~/x", cwd + "/jobs/old/step-3", cwd + "/jobs/tr.%RANK%"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if j, err = Load("jobs/job.yaml", []string{`checkpoint.dir=""`, "checkpoint.resume=none"}); err != nil || j.Checkpoint.Dir != "" || j.Checkpoint.Resume != "none" {
		t.Errorf("%+v %v", j, err)
	}
}

func TestPathsOfIDX(t *testing.T) {
	text := strings.Replace(tiny, `{type: csv, path: ids.csv, csv: {features: "0:1", label: 1}}`, `{type: idx, path: set, idx: {images: a, labels: /b}}`, 1)
	path := write(t, "job.yaml", text)
	dir := filepath.Dir(path)
	for set, want := range map[string][2]string{
		"name=x":         {dir + "/set/a", "/b"},
		"data.path=/abs": {"/abs/a", "/b"},
	} {
		j, err := Load(path, []string{set})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{j.Data.IDX.Images, j.Data.IDX.Labels}; got != want {
			t.Errorf("%s: %q, want %q", set, got, want)
		}
	}
	j := mustLoad(t, strings.Replace(text, "path: set, ", "", 1))
	if filepath.Base(filepath.Dir(j.Data.IDX.Images)) == "set" || !filepath.IsAbs(j.Data.IDX.Images) {
		t.Errorf("without data.path: %s", j.Data.IDX.Images)
	}
}
