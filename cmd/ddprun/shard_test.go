package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddprun/ddprun/internal/exitcode"
)

// shard runs "ddprun shard" under a root with the normalisation of the real
// one.
func shard(args ...string) (stdout, stderr string, err error) {
	root := &cobra.Command{Use: "ddprun"}
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	root.AddCommand(newShardCommand())
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"shard"}, args...))
	err = root.Execute()
	return out.String(), errOut.String(), err
}

func TestShardPrintsVectors(t *testing.T) {
	raw, err := os.ReadFile("../../sampler/testdata/sampler_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Sampler []struct {
			N, World, Seed, Epoch int
			Shuffle               bool
			DropLast              bool `json:"drop_last"`
			Ranks                 [][]int
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sampler) == 0 {
		t.Fatal("no vectors")
	}
	for _, c := range v.Sampler {
		args := []string{"--n", strconv.Itoa(c.N), "--world-size", strconv.Itoa(c.World), "--seed", strconv.Itoa(c.Seed), "--epoch", strconv.Itoa(c.Epoch)}
		if !c.Shuffle {
			args = append(args, "--no-shuffle")
		}
		if c.DropLast {
			args = append(args, "--drop-last")
		}
		checkShardOutput(t, args, c.Ranks)
		for rank := range c.Ranks {
			checkShardOutput(t, append(args, "--rank", strconv.Itoa(rank)), c.Ranks[rank:rank+1])
		}
	}
}

func checkShardOutput(t *testing.T, args []string, want [][]int) {
	t.Helper()
	var text, arrays strings.Builder
	for _, list := range want {
		line := strings.Trim(fmt.Sprint(list), "[]")
		text.WriteString(line + "\n")
		arrays.WriteString("[" + strings.ReplaceAll(line, " ", ",") + "]\n")
	}
	if out, _, err := shard(args...); err != nil || out != text.String() {
		t.Errorf("shard %v: %v, got %q, want %q", args, err, out, text.String())
	}
	if out, _, err := shard(append(args, "--json")...); err != nil || out != arrays.String() {
		t.Errorf("shard %v --json: %v, got %q, want %q", args, err, out, arrays.String())
	}
}

func TestShardTakesBothSpellings(t *testing.T) {
	out, _, err := shard("--n=4", "--world_size=2", "--no_shuffle", "--drop_last", "--rank=1")
	if err != nil || out != "1 3\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, _, err := shard("--n=4", "--world=2"); exitcode.Of(err) != exitcode.Usage {
		t.Errorf("an abbreviated flag: %v", err)
	}
}

func TestShardNotesAnEmptyEpoch(t *testing.T) {
	out, errOut, err := shard("--n=3", "--world-size=4", "--drop-last", "--json")
	if err != nil || out != "[]\n[]\n[]\n[]\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if !strings.Contains(errOut, "no training step is possible") {
		t.Errorf("standard error: %q", errOut)
	}
}

func TestShardReportsEveryBadValue(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"--n is missing", "--world-size is missing"}},
		{
			[]string{"--n=x", "--world-size=0", "--rank=-1", "--epoch=1.5", "--seed=99999999999999999999"},
			[]string{`--n "x" is not`, "--world-size 0 is outside 1..", "--rank -1 is outside 0..", `--epoch "1.5"`, "--seed 99999999999999999999 is outside"},
		},
		{[]string{"--n=-1", "--world-size=2", "--rank=2"}, []string{"--n -1 is outside 0..", "--rank 2 is outside 0..1 (--world-size 2)"}},
		{[]string{"--n=9007199254740993", "--world-size=1"}, []string{"--n 9007199254740993 is outside"}},
		{[]string{"--n=5", "--world-size=1", "stray"}, []string{`unexpected argument "stray"`}},
		{[]string{"--n=5", "--world-size=1", "--nope"}, []string{"unknown flag: --nope"}},
		{[]string{"--n=5", "--world-size=1", "--json=maybe"}, []string{"--json"}},
		{[]string{"--n=0x10", "--world-size=1_0"}, []string{`--n "0x10"`, `--world-size "1_0"`}},
	} {
		out, _, err := shard(c.args...)
		if exitcode.Of(err) != exitcode.Usage {
			t.Errorf("shard %v: exit code %d (%v)", c.args, exitcode.Of(err), err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("shard %v: %q lacks %q", c.args, err, want)
			}
		}
		if out != "" {
			t.Errorf("shard %v printed %q", c.args, out)
		}
	}
}

func TestShardRefusesAnOrderBeyondMemory(t *testing.T) {
	if availableMemory() == 0 {
		t.Skip("the kernel does not say how much memory is available")
	}
	_, _, err := shard("--n=9007199254740992", "--world-size=2")
	if exitcode.Of(err) != exitcode.Machine {
		t.Errorf("exit code %d: %v", exitcode.Of(err), err)
	}
}

// failingWriter refuses all but the first bytes, as a full disk or a closed
// pipe would, and remembers the largest write.
type failingWriter struct{ left, largest int }

var errSink = errors.New("sink is full")

func (w *failingWriter) Write(p []byte) (int, error) {
	w.largest = max(w.largest, len(p))
	if len(p) > w.left {
		return 0, errSink
	}
	w.left -= len(p)
	return len(p), nil
}

// An order of 2^53 samples can be written only in a stream; it ends at the
// first failed write.
func TestShardStreams(t *testing.T) {
	sink := &failingWriter{left: 1 << 20}
	cmd := newShardCommand()
	cmd.SetOut(sink)
	cmd.SetArgs([]string{"--n=9007199254740992", "--world-size=1", "--no-shuffle"})
	if err := cmd.Execute(); !errors.Is(err, errSink) || exitcode.Of(err) != exitcode.Failure {
		t.Errorf("got %v", err)
	}
	if sink.largest > 1<<16 {
		t.Errorf("a single write of %d bytes", sink.largest)
	}
}

func TestShardRanksShareOnePermutation(t *testing.T) {
	out, _, err := shard("--n=1000", "--world-size=10", "--seed=-4", "--epoch=3", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for line := range strings.Lines(out) {
		var own []int
		if err := json.Unmarshal([]byte(line), &own); err != nil || len(own) != 100 {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	for i, sample := range all {
		if i != sample {
			t.Fatalf("place %d holds sample %d", i, sample)
		}
	}
}
