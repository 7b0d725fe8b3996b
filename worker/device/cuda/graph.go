//go:build cuda

package cuda

import "github.com/ddprun/ddprun/worker/device/cuda/driver"

// Graph is a captured run of operators that one call enqueues again. Operators
// run on the addresses that they were captured with, so the tensors they use,
// and the memory of those released in between, must be left alone as long as
// the graph lives.
type Graph struct {
	d *Device
	g *driver.Graph
}

// Capture records the operators that f enqueues, without running them. f must
// have run before outside of a capture (so that memory is cached, kernels are
// loaded and algorithms are chosen), and must not wait or upload.
func (d *Device) Capture(f func() error) (*Graph, error) {
	d.capture = true
	defer func() { d.capture = false }()
	g, err := d.ctx.Capture(d.compute, f)
	if err != nil {
		return nil, d.named("capture", err)
	}
	return &Graph{d, g}, nil
}

// Launch enqueues the operators.
func (g *Graph) Launch() error { return g.d.named("graph", g.g.Launch(g.d.compute)) }

// Close waits for the operators and frees the graph.
func (g *Graph) Close() error {
	if err := g.d.wait(); err != nil {
		return err
	}
	return g.d.named("graph", g.g.Close())
}
