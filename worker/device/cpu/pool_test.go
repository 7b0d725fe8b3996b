package cpu

import "testing"

func TestClasses(t *testing.T) {
	last := 0
	for n := 0; n < 1<<22; n += 1 + n/100 {
		c := classOf(n)
		size := classSize(c)
		if size < n || size%lineFloats != 0 {
			t.Fatalf("%d elements get class %d of %d", n, c, size)
		}
		if c < last {
			t.Fatalf("class of %d is %d, below that of fewer elements", n, c)
		}
		if n > lineFloats && classSize(c-1) >= n {
			t.Fatalf("%d elements get class %d though %d would do", n, c, c-1)
		}
		if waste := size - n; waste > n/8+lineFloats {
			t.Fatalf("%d elements waste %d", n, waste)
		}
		if classOf(size) != c {
			t.Fatalf("a block of class %d goes back to class %d", c, classOf(size))
		}
		last = c
	}
	if c := classOf(maxElements); c+nearClasses >= classes {
		t.Fatalf("the largest tensor has class %d of %d", c, classes)
	}
}

// TestNearClass lends a free block to a slightly smaller request, but not to a
// much smaller one.
func TestNearClass(t *testing.T) {
	p := newPool()
	defer func() { _ = p.close() }()
	take := func(n int) []float32 {
		block, err := p.take(n)
		if err != nil {
			t.Fatal(err)
		}
		return block
	}
	large := take(16 * 1024)
	p.put(large)
	reserved := p.statistics().Reserved
	near := take(12 * 1024)
	if p.statistics().Reserved != reserved || &near[0] != &large[0] {
		t.Error("a request of three quarters of a free block took fresh memory")
	}
	p.put(near)
	take(4 * 1024)
	if p.statistics().Reserved == reserved {
		t.Error("a request of a quarter of a free block took it")
	}
	if again := take(16 * 1024); &again[0] != &large[0] {
		t.Error("a lent block did not go back to its own class")
	}
}

func TestWorkspaceGrows(t *testing.T) {
	d := &Device{pool: newPool()}
	defer func() { _ = d.Close() }()
	for _, n := range []int{0, 100, 50, 100_000, 99_999} {
		mem, err := d.workspace(n)
		if err != nil || len(mem) != n {
			t.Fatalf("workspace(%d) has %d elements, %v", n, len(mem), err)
		}
	}
	if got := d.Stats(); got.Allocated != 0 || got.Reserved > 4*(classSize(classOf(100))+classSize(classOf(100_000))+lineFloats) {
		t.Errorf("statistics: %+v", got)
	}
}
