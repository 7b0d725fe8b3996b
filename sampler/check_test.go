package sampler

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		n, world, batch     int
		drop, dropLastBatch bool
		refused             bool
	}{
		{n: 10, world: 4, batch: 3},
		{n: 1, world: 4, batch: 100},
		{n: 3, world: 4, batch: 1, drop: true, refused: true},
		{n: 4, world: 4, batch: 1, drop: true, dropLastBatch: true},
		{n: 0, world: 2, batch: 1, refused: true},
		{n: 0, world: 2, batch: 1, drop: true, refused: true},
		{n: 10, world: 4, batch: 4, dropLastBatch: true, refused: true},
		{n: 10, world: 4, batch: 3, dropLastBatch: true},
		{n: 10, world: 4, batch: 3, drop: true, dropLastBatch: true, refused: true},
		{n: 10, world: 4, batch: 0, refused: true},
	} {
		err := mustNew(t, Config{Length: c.n, WorldSize: c.world, DropLast: c.drop}).Check(c.batch, c.dropLastBatch)
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			continue
		}
		if exitcode.Of(fmt.Errorf("rank 0: %w", err)) != exitcode.Data {
			t.Errorf("%+v: exit code %d", c, exitcode.Of(err))
		}
		want := fmt.Sprintf("(samples: %d, world size: %d, batch size per rank: %d)", c.n, c.world, c.batch)
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %q lacks %q", c, err, want)
		}
		var coder exitcode.Coder
		if !errors.As(err, &coder) {
			t.Errorf("%+v: no exit class", c)
		}
	}
}
