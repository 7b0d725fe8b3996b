package ncclgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ddprun/ddprun/collective/store"
)

// Keys of a group in the store, below "nccl/NAME":
//
//	hello/R   JSON of card: rank R's process has come, with this library
//	id        JSON of invitation: rank 0's unique id, or why there is none
//	up/R      rank R's communicator stands
//	abort     JSON of failure: the group is broken; set once
//	diagnose  rank that found a deadline passed: everyone is to set state/R
//	state/R   JSON of state
//	beat/R    a number that grows while rank R's process lives
//	left/R    rank R closed the group in good order, and after which operation
//	op/N      "RANK TEXT": what the first rank to come to operation N issued
//
// A sub-group is a group with a name of its own.
type board struct {
	store store.Store
	rank  int
	size  int
}

func newBoard(cfg Config) *board {
	return &board{store: store.Prefix(cfg.Store, "nccl/"+cfg.Name), rank: cfg.Rank, size: cfg.Size}
}

func of(key string, rank int) string { return key + "/" + strconv.Itoa(rank) }

func (b *board) setJSON(ctx context.Context, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.store.Set(ctx, key, text)
}

func (b *board) getJSON(ctx context.Context, key string, v any) error {
	text, err := b.store.Get(ctx, key)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return nil
}

// peek is Get without waiting; nil: the key does not exist. The store has no
// such call, but a compare-and-set that expects what no one writes is one.
func (b *board) peek(ctx context.Context, key string) ([]byte, error) {
	nobody := []byte("\x00peek\x00")
	v, _, err := b.store.CompareAndSet(ctx, key, nobody, nobody)
	if len(v) == 0 {
		return nil, err
	}
	return v, err
}

// said is the value of keys whose being there is all.
var said = []byte("1")

// missing lists the ranks that have not set their key.
func (b *board) missing(ctx context.Context, key string) ([]int, error) {
	var ranks []int
	for r := range b.size {
		v, err := b.peek(ctx, of(key, r))
		if err != nil {
			return ranks, err
		}
		if v == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// publish tells the other ranks that the group is broken. If another rank has
// told already, they know.
func (b *board) publish(f *failure) {
	text, err := json.Marshal(f)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishLimit)
	defer cancel()
	_, _, _ = b.store.CompareAndSet(ctx, "abort", nil, text) // the way to the store may be what broke
}

// told waits until some rank breaks the group. Nil: ctx or the store ended.
func (b *board) told(ctx context.Context) (*failure, error) {
	f := &failure{told: true}
	if err := b.getJSON(ctx, "abort", f); err != nil {
		return nil, err
	}
	return f, nil
}

// agree compares an operation with what the first rank to come to it issued;
// first says that it was this one.
func (b *board) agree(ctx context.Context, seq uint64, text string) (other int, theirs string, first bool, err error) {
	own := []byte(strconv.Itoa(b.rank) + " " + text)
	v, first, err := b.store.CompareAndSet(ctx, "op/"+strconv.FormatUint(seq, 10), nil, own)
	if err != nil || first {
		return b.rank, text, first, err
	}
	rank, theirs, ok := strings.Cut(string(v), " ")
	other, err = strconv.Atoi(rank)
	if !ok || err != nil {
		return 0, "", false, fmt.Errorf("key op/%d has %.80q, which no rank of this group wrote", seq, v)
	}
	return other, theirs, false, nil
}

// elect says whether this rank is the one to find out what is wrong, so that
// a thousand ranks do not all ask all others.
func (b *board) elect(ctx context.Context) bool {
	_, won, err := b.store.CompareAndSet(ctx, "diagnose", nil, []byte(strconv.Itoa(b.rank)))
	return won || err != nil
}

// silent lists the ranks whose process gives no sign of life within d, though
// they have not closed the group.
func (b *board) silent(ctx context.Context, d time.Duration) ([]int, error) {
	before := make([]string, b.size)
	for r := range b.size {
		v, err := b.peek(ctx, of("beat", r))
		if err != nil {
			return nil, err
		}
		before[r] = string(v)
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var ranks []int
	for r := range b.size {
		if r == b.rank {
			continue
		}
		v, err := b.peek(ctx, of("beat", r))
		if err != nil {
			return nil, err
		}
		if string(v) != before[r] {
			continue
		}
		if left, err := b.peek(ctx, of("left", r)); err == nil && left == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// states collects what each rank says it is doing, until all have answered or
// ctx ends.
func (b *board) states(ctx context.Context) map[int]state {
	all := map[int]state{}
	for r := range b.size {
		var s state
		if err := b.getJSON(ctx, of("state", r), &s); err == nil {
			all[r] = s
			continue
		}
		// Out of time: whoever has answered meanwhile still counts.
		late, cancel := context.WithTimeout(context.Background(), publishLimit)
		if v, err := b.peek(late, of("state", r)); err == nil && v != nil && json.Unmarshal(v, &s) == nil {
			all[r] = s
		} else if v, err := b.peek(late, of("left", r)); err == nil && v != nil {
			all[r] = state{Left: true}
		}
		cancel()
	}
	return all
}

// stopped says whether an error means that this side gave up, rather than
// that the store failed.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// list names ranks: "rank 2, rank 5".
func list(ranks []int) string {
	const few = 16
	var b strings.Builder
	for i, r := range ranks {
		if i == few {
			fmt.Fprintf(&b, " and %d more", len(ranks)-few)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "rank %d", r)
	}
	return b.String()
}
