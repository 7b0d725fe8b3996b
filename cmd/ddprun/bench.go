package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// benchOps are the operations that can be measured, under the name of the
// sub-command.
var benchOps = []string{"allreduce", "broadcast", "allgather", "reducescatter", "barrier"}

// newBenchCommand measures collectives between processes of this machine. It is
// left without a parent; the root command sets the flag-name normalisation.
func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "bench OPERATION",
		Short:         "measure collectives between ranks of this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			what := "no operation"
			if len(args) > 0 {
				what = fmt.Sprintf("unknown operation %q", args[0])
			}
			return exitcode.With(fmt.Errorf("ddprun bench: %s (one of %s)", what, strings.Join(benchOps, ", ")), exitcode.Usage)
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	for _, op := range benchOps {
		cmd.AddCommand(newBenchOpCommand(op))
	}
	return cmd
}

// benchFlags are the flags of an operation as given.
type benchFlags struct {
	nproc, sizes, iters, dtype string
	json, startup              bool
}

func newBenchOpCommand(op string) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   op,
		Short: "measure " + op,
		Long: `Measure ` + op + ` between processes of this machine.

A figure is the median of five rounds; a round is a barrier and then operations
back to back, and counts as the wall time of its slowest rank. bytes is the size
of the whole buffer: what is reduced or broadcast, the gathered result, the
scattered source. algbw is bytes/time; busbw is algbw times what an ideal
algorithm moves for each byte, so that it compares across world sizes.`,
		Example: `  ddprun bench allreduce --nproc-per-node 4
  ddprun bench allreduce --sizes 4,1KiB,1MiB --json
  ddprun bench allreduce --startup`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exitcode.With(fmt.Errorf("ddprun bench %s: unexpected argument %q (it takes flags only)", op, args[0]), exitcode.Usage)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := f.plan(op)
			if err != nil {
				return exitcode.With(fmt.Errorf("ddprun bench %s: %w", op, err), exitcode.Usage)
			}
			if err := runBench(cmd, plan, f.json); err != nil {
				return fmt.Errorf("ddprun bench %s: %w", op, err)
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return exitcode.With(fmt.Errorf("ddprun bench %s: %w", op, err), exitcode.Usage)
	})
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.nproc, "nproc-per-node", "2", "ranks")
	sizes := "4,1KiB,64KiB,1MiB,16MiB,100MiB"
	if op == "barrier" {
		sizes = "0"
	}
	fl.StringVar(&f.sizes, "sizes", sizes, "buffer sizes: bytes, KiB, MiB, GiB, kB, MB, GB")
	fl.StringVar(&f.iters, "iters", "0", "operations a round (default as many as fit 0.3 s)")
	fl.StringVar(&f.dtype, "dtype", "float32", "float32 | float64 | int32 | int64 | uint8")
	fl.BoolVar(&f.json, "json", false, "print a JSON object a line")
	if op == "allreduce" {
		fl.BoolVar(&f.startup, "startup", false, "measure from the start of a launcher to the first 1 MiB all-reduce done on all ranks")
	}
	return cmd
}

// benchPlan is what the ranks are to do; they get it as JSON.
type benchPlan struct {
	Op      string           `json:"op"`
	World   int              `json:"world"`
	Sizes   []int            `json:"sizes"`
	Iters   int              `json:"iters"` // 0: by time
	DType   collective.DType `json:"dtype"`
	Startup bool             `json:"startup,omitempty"`
	Begin   int64            `json:"begin,omitempty"` // startup: when the launcher was started, ns since 1970
	Rows    string           `json:"rows"`            // where rank 0 writes
}

// benchRow is one figure; times in microseconds, bandwidths in 1e9 bytes a
// second.
type benchRow struct {
	Op    string  `json:"op"`
	World int     `json:"world"`
	Bytes int     `json:"bytes"`
	US    float64 `json:"us"`
	AlgBW float64 `json:"algbw_GBs"`
	BusBW float64 `json:"busbw_GBs"`
	MinUS float64 `json:"min_us"`
	MaxUS float64 `json:"max_us"`
	Iters int     `json:"iters"`
	DType string  `json:"dtype"`
}

const maxBenchRanks = 1024

func (f benchFlags) plan(op string) (benchPlan, error) {
	p := benchPlan{Op: op, Startup: f.startup}
	var errs []error
	var err error
	if p.World, err = strconv.Atoi(f.nproc); err != nil || p.World < 1 || p.World > maxBenchRanks {
		errs = append(errs, fmt.Errorf("--nproc-per-node %q is not a whole number within 1..%d", f.nproc, maxBenchRanks))
	}
	if p.Iters, err = strconv.Atoi(f.iters); err != nil || p.Iters < 0 || p.Iters > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("--iters %q is not a whole number within 0..%d", f.iters, math.MaxInt32))
	}
	for d := collective.Float32; d <= collective.Uint8; d++ {
		if d.String() == f.dtype {
			p.DType = d
		}
	}
	if p.DType == 0 {
		errs = append(errs, fmt.Errorf("--dtype %q is none of float32, float64, int32, int64, uint8", f.dtype))
	}
	for _, text := range strings.Split(f.sizes, ",") {
		n, err := parseSize(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--sizes: %w", err))
		}
		p.Sizes = append(p.Sizes, n)
	}
	return p, errors.Join(errs...)
}

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
}

// parseSize reads a size like 4, 64KiB, 2.7MB.
func parseSize(text string) (int, error) {
	text = strings.TrimSpace(text)
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v*u.bytes <= 1<<40) {
			break
		}
		return int(math.Round(v * u.bytes)), nil
	}
	return 0, fmt.Errorf("%q is not a size of at most 1024 GiB, like 4, 64KiB or 2.7MB", text)
}

// runBench measures and prints; rows appear as they are measured.
func runBench(cmd *cobra.Command, p benchPlan, asJSON bool) error {
	print := tablePrinter(cmd.OutOrStdout())
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		print = func(r benchRow) error { return enc.Encode(r) }
	}
	ctx := benchContext(cmd)
	if p.Startup {
		return measureStartup(ctx, cmd.ErrOrStderr(), p, print)
	}
	return launchBench(ctx, cmd.ErrOrStderr(), p, print)
}

// tablePrinter prints rows with aligned columns, each as soon as it comes.
func tablePrinter(w io.Writer) func(benchRow) error {
	tw := tabwriter.NewWriter(w, 11, 0, 2, ' ', tabwriter.AlignRight)
	head := false
	return func(r benchRow) error {
		if !head {
			fmt.Fprintf(tw, "operation\tworld\tbytes\ttype\tus\tmin\tmax\talgbw GB/s\tbusbw GB/s\t\n")
			head = true
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t\n",
			r.Op, r.World, r.Bytes, r.DType, r.US, r.MinUS, r.MaxUS, r.AlgBW, r.BusBW)
		return tw.Flush()
	}
}

// row makes a figure out of the rounds' times, in seconds an operation.
func (p benchPlan) row(bytes, iters int, rounds []float64) benchRow {
	us := func(s float64) float64 { return math.Round(s*1e9) / 1e3 }
	r := benchRow{
		Op: p.Op, World: p.World, Bytes: bytes, Iters: iters, DType: p.DType.String(),
		US: us(rounds[len(rounds)/2]), MinUS: us(rounds[0]), MaxUS: us(rounds[len(rounds)-1]),
	}
	if t := rounds[len(rounds)/2]; t > 0 {
		alg := float64(bytes) / t / 1e9
		r.AlgBW = math.Round(alg*1e6) / 1e6
		r.BusBW = math.Round(alg*p.busFactor()*1e6) / 1e6
	}
	return r
}

// busFactor is what an ideal algorithm moves through each rank's link, per byte
// of the buffer (as in nccl-tests).
func (p benchPlan) busFactor() float64 {
	n := float64(p.World)
	switch p.Op {
	case "allreduce":
		return 2 * (n - 1) / n
	case "allgather", "reducescatter":
		return (n - 1) / n
	}
	return 1
}

// startupRepeats is how often a start is measured.
const startupRepeats = 7

// measureStartup starts a launcher each time, so that all from its exec on is
// in the figure.
func measureStartup(ctx context.Context, stderr io.Writer, p benchPlan, print func(benchRow) error) error {
	repeats := p.Iters
	if repeats == 0 {
		repeats = startupRepeats
	}
	var times []float64
	for range repeats {
		p.Begin = time.Now().UnixNano()
		err := launchBench(ctx, stderr, p, func(r benchRow) error {
			times = append(times, r.US/1e6)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(times)
	p.Op, p.DType = "startup", collective.Float32
	row := p.row(startupBytes, 1, times)
	row.AlgBW, row.BusBW = 0, 0
	return print(row)
}
