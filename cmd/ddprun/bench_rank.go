package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/collective/cpu"
	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/rankenv"
)

const (
	startupBytes  = 1 << 20
	benchTimeout  = 2 * time.Minute
	benchRounds   = 5
	benchRound    = 0.3 // seconds
	benchMaxIters = 2000
)

// runBenchRank is the life of one rank of the benchmark.
func runBenchRank(ctx context.Context, p benchPlan) error {
	env, err := rankenv.Read(os.LookupEnv)
	if err != nil {
		return err
	}
	client, err := store.Dial(ctx, env.Store, env.Token)
	if err != nil {
		return fmt.Errorf("rank %d: %w", env.Rank, err)
	}
	defer func() { _ = client.Close() }()
	group, err := cpu.New(ctx, cpu.Config{
		Rank: env.Rank, Size: env.WorldSize, Token: env.Token, Timeout: benchTimeout,
		Store: store.Prefix(client, env.RunID+"/"+strconv.Itoa(env.Attempt)),
	})
	if err != nil {
		return err
	}
	b := &bench{plan: p, group: group}
	if err := b.measure(ctx); err != nil {
		group.Abort(err)
		return err
	}
	return group.Close()
}

// bench measures in one rank.
type bench struct {
	plan  benchPlan
	group collective.Group
	rows  *json.Encoder // rank 0's
	buf   []float64     // memory of the buffers; aligned for every type
	part  []float64     // of the smaller buffer, where there are two
}

func (b *bench) measure(ctx context.Context) error {
	if b.group.Rank() == 0 {
		f, err := os.OpenFile(b.plan.Rows, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open the pipe for the figures: %w", err)
		}
		defer func() { _ = f.Close() }()
		b.rows = json.NewEncoder(f)
	}
	if b.plan.Startup {
		return b.startup(ctx)
	}
	return b.run(ctx)
}

// print hands a row to the command that the user called.
func (b *bench) print(r benchRow) error {
	if b.rows == nil {
		return nil
	}
	return b.rows.Encode(r)
}

// startup does the first all-reduce and reports when the slowest rank had it.
func (b *bench) startup(ctx context.Context) error {
	buf := make([]float32, startupBytes/4)
	if err := b.group.AllReduce(collective.HostBuffer(buf), collective.Sum).Wait(ctx); err != nil {
		return err
	}
	took := []int64{time.Now().UnixNano() - b.plan.Begin}
	if err := b.group.AllReduce(collective.HostBuffer(took), collective.Max).Wait(ctx); err != nil {
		return err
	}
	return b.print(benchRow{Op: "startup", World: b.plan.World, Bytes: startupBytes, US: float64(took[0]) / 1e3})
}

// run measures all sizes.
func (b *bench) run(ctx context.Context) error {
	largest := slices.Max(b.plan.Sizes)
	b.buf = touched(largest/8 + 1)
	if b.plan.Op == "allgather" || b.plan.Op == "reducescatter" {
		b.part = touched(largest/8/b.plan.World + 1)
	}
	for _, size := range b.plan.Sizes {
		if err := b.size(ctx, size); err != nil {
			return err
		}
	}
	return nil
}

// touched allocates memory whose pages are there.
func touched(n int) []float64 {
	v := make([]float64, n)
	for i := 0; i < n; i += 512 {
		v[i] = 0
	}
	return v
}

// size measures one size: a warm-up, then rounds of a barrier and operations
// back to back. A round's figure is the slowest rank's.
func (b *bench) size(ctx context.Context, size int) error {
	do, bytes := b.operation(size)
	run := func(n int) (float64, error) {
		begin := time.Now()
		for range n {
			if err := do().Wait(ctx); err != nil {
				return 0, err
			}
		}
		return b.slowest(ctx, time.Since(begin).Seconds()/float64(n))
	}
	if _, err := run(1); err != nil {
		return err
	}
	iters := b.plan.Iters
	if iters == 0 {
		t, err := run(3)
		if err != nil {
			return err
		}
		iters = int(min(benchMaxIters, max(1, benchRound/max(t, 1e-9))))
	}
	var rounds []float64
	for range benchRounds {
		if err := b.group.Barrier().Wait(ctx); err != nil {
			return err
		}
		t, err := run(iters)
		if err != nil {
			return err
		}
		rounds = append(rounds, t)
	}
	slices.Sort(rounds)
	return b.print(b.plan.row(bytes, iters, rounds))
}

// slowest is the largest of all ranks' values.
func (b *bench) slowest(ctx context.Context, s float64) (float64, error) {
	v := []float64{s}
	err := b.group.AllReduce(collective.HostBuffer(v), collective.Max).Wait(ctx)
	return v[0], err
}

// operation is the operation at a size, and the bytes of its buffer: size
// rounded down to what all ranks can share.
func (b *bench) operation(size int) (func() collective.Work, int) {
	d, n, g := b.plan.DType, b.plan.World, b.group
	count := size / d.Size()
	whole := b.buffer(b.buf, count)
	switch b.plan.Op {
	case "broadcast":
		return func() collective.Work { return g.Broadcast(whole, 0) }, whole.Bytes()
	case "allgather", "reducescatter":
		part := b.buffer(b.part, count/n)
		whole = b.buffer(b.buf, count/n*n)
		if b.plan.Op == "allgather" {
			return func() collective.Work { return g.AllGather(whole, part) }, whole.Bytes()
		}
		return func() collective.Work { return g.ReduceScatter(part, whole, collective.Sum) }, whole.Bytes()
	case "barrier":
		return g.Barrier, 0
	}
	return func() collective.Work { return g.AllReduce(whole, collective.Sum) }, whole.Bytes()
}

func (b *bench) buffer(memory []float64, count int) collective.Buffer {
	buf := collective.HostBuffer(memory)
	buf.Count, buf.DType = count, b.plan.DType
	return buf
}
