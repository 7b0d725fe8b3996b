package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/testkit"
)

// TestBench runs each operation through the real binary and checks what its
// rows say.
func TestBench(t *testing.T) {
	bus := map[string]float64{"allreduce": 4. / 3, "broadcast": 1, "allgather": 2. / 3, "reducescatter": 2. / 3, "barrier": 0}
	for _, op := range benchOps {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			res := testkit.Run(t, time.Minute, testkit.Binary(t), "bench", op, "--nproc_per_node=3", "--sizes=8,1KiB", "--iters=2", "--dtype=int64", "--json")
			if res.Code != 0 {
				t.Fatalf("exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
			}
			lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
			if len(lines) != 2 {
				t.Fatalf("%d rows:\n%s", len(lines), res.Stdout)
			}
			for i, line := range lines {
				var r benchRow
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				want := map[string][]int{"allreduce": {8, 1024}, "broadcast": {8, 1024}, "allgather": {0, 1008}, "reducescatter": {0, 1008}, "barrier": {0, 0}}[op][i]
				if r.Op != op || r.World != 3 || r.Bytes != want || r.Iters != 2 || r.DType != "int64" {
					t.Errorf("row %s: want %d bytes", line, want)
				}
				if r.US <= 0 || r.MinUS > r.US || r.MaxUS < r.US {
					t.Errorf("row %s: times", line)
				}
				if alg := float64(r.Bytes) / r.US / 1e3; math.Abs(r.AlgBW-alg) > 1e-3*alg+2e-6 || math.Abs(r.BusBW-alg*bus[op]) > 1e-3*alg+2e-6 {
					t.Errorf("row %s: bandwidths, want %v and %v", line, alg, alg*bus[op])
				}
			}
		})
	}
}

func TestBenchTable(t *testing.T) {
	res := testkit.Run(t, time.Minute, testkit.Binary(t), "bench", "allreduce", "--nproc-per-node", "2", "--sizes", "4,64kB", "--iters", "1")
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	if res.Code != 0 || len(lines) != 3 || !strings.Contains(lines[0], "busbw GB/s") || !strings.Contains(lines[2], " 64000 ") {
		t.Errorf("exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}

func TestBenchStartup(t *testing.T) {
	res := testkit.Run(t, time.Minute, testkit.Binary(t), "bench", "allreduce", "--nproc-per-node", "2", "--startup", "--iters", "2", "--json")
	var r benchRow
	if err := json.Unmarshal([]byte(res.Stdout), &r); err != nil || res.Code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	if r.Op != "startup" || r.Bytes != 1<<20 || r.US < 100 || r.US > 60e6 {
		t.Errorf("row %s", res.Stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"allreduce", "--nproc-per-node", "0"}, `--nproc-per-node "0"`},
		{[]string{"allreduce", "--sizes", "4,4x"}, `"4x" is not a size`},
		{[]string{"allreduce", "--sizes", "-1"}, `"-1" is not a size`},
		{[]string{"allreduce", "--sizes", "9e9GiB"}, "is not a size"},
		{[]string{"allreduce", "--iters", "many"}, `--iters "many"`},
		{[]string{"allreduce", "--dtype", "bfloat16"}, `--dtype "bfloat16"`},
		{[]string{"allreduce", "extra"}, `unexpected argument "extra"`},
		{[]string{"broadcast", "--startup"}, "startup"},
		{[]string{"alltoall"}, `unknown operation "alltoall" (one of allreduce,`},
		{nil, "no operation"},
	} {
		res := testkit.Run(t, time.Minute, testkit.Binary(t), append([]string{"bench"}, c.args...)...)
		if res.Code != exitcode.Usage || !strings.Contains(res.Stderr, c.want) || res.Stdout != "" {
			t.Errorf("bench %q: exit code %d, %q, want %q\n%s", c.args, res.Code, res.Stderr, c.want, res.Stdout)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "4": 4, "4B": 4, "1KiB": 1 << 10, " 64 KiB ": 64 << 10, "2.7MB": 2_700_000, "1.5GiB": 3 << 29, "3kB": 3000} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "KiB", "x", "1TiB", "NaN", "Inf", "0x10q"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}
