package staging_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ddprun/ddprun/worker/device/cuda/staging"
)

// device fetches regions in order, when the test lets it, and holds that they
// have not changed in between.
type device struct {
	t       *testing.T
	pending []fetch
	passed  int
	waits   int
	refuse  error
}

type fetch struct {
	mark   int
	region []byte
	want   []byte
}

func (d *device) step() {
	f := d.pending[0]
	d.pending = d.pending[1:]
	if !bytes.Equal(f.region, f.want) {
		d.t.Errorf("region %d was overwritten before the device fetched it", f.mark)
	}
	d.passed = f.mark
}

func (d *device) Done(mark int) (bool, error) { return mark <= d.passed, d.refuse }

func (d *device) Wait(mark int) error {
	d.waits++
	for d.passed < mark {
		d.step()
	}
	return d.refuse
}

func (d *device) Forget(mark int) error {
	if mark > d.passed {
		d.t.Errorf("mark %d was given back early", mark)
	}
	return nil
}

func TestRing(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		d := &device{t: t}
		r := staging.New[int](make([]byte, 8<<10), d)
		for mark := 1; mark <= 2000; mark++ {
			n := 1 + rng.IntN(r.Most())
			if rng.IntN(2) == 0 {
				n = 1 + rng.IntN(64)
			}
			region, err := r.Reserve(n)
			if err != nil || len(region) != n || cap(region) != n {
				t.Fatalf("Reserve(%d): %d bytes, %v", n, len(region), err)
			}
			for i := range region {
				region[i] = byte(rng.Uint32())
			}
			d.pending = append(d.pending, fetch{mark, region, bytes.Clone(region)})
			r.Commit(mark)
			for len(d.pending) > 0 && rng.IntN(3) == 0 {
				d.step()
			}
		}
		if err := r.Drain(); err != nil || len(d.pending) > 0 {
			t.Errorf("after Drain %d regions are not fetched, %v", len(d.pending), err)
		}
	}
}

// TestSmallOnesDoNotWait: as many regions as fit are in flight at once.
func TestSmallOnesDoNotWait(t *testing.T) {
	d := &device{t: t}
	r := staging.New[int](make([]byte, 64<<10), d)
	for mark := range 250 {
		if _, err := r.Reserve(100); err != nil {
			t.Fatal(err)
		}
		d.pending = append(d.pending, fetch{mark: mark + 1})
		r.Commit(mark + 1)
	}
	if d.waits != 0 {
		t.Errorf("waited %d times with room left", d.waits)
	}
}

func TestErrors(t *testing.T) {
	d := &device{t: t}
	r := staging.New[int](make([]byte, 4<<10), d)
	for _, n := range []int{0, -1, r.Most() + 1} {
		if _, err := r.Reserve(n); err == nil {
			t.Errorf("Reserve(%d): no error", n)
		}
	}
	if _, err := r.Reserve(1); err != nil {
		t.Fatal(err)
	}
	r.Commit(1)
	d.refuse = errors.New("the device is lost")
	if _, err := r.Reserve(1); !errors.Is(err, d.refuse) {
		t.Errorf("a lost device: %v", err)
	}
}
