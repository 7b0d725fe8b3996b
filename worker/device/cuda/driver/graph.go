//go:build cuda

package driver

// #include "driver.h"
import "C"

// Graph is a captured run of work that one call launches again.
type Graph struct {
	ctx         *Context
	graph, exec C.uintptr_t
}

// Capture records what f puts into the stream, without running it. The calling
// goroutine must keep its OS thread, and f must not wait for the device, copy
// from memory that is not pinned, or allocate device memory from the driver.
func (c *Context) Capture(s Stream, f func() error) (*Graph, error) {
	if err := check("cuStreamBeginCapture", C.ddp_capture_begin(c.c(), C.uintptr_t(s))); err != nil {
		return nil, err
	}
	failed := f()
	g := &Graph{ctx: c}
	err := check("cuStreamEndCapture", C.ddp_capture_end(c.c(), C.uintptr_t(s), &g.graph, &g.exec))
	if failed != nil {
		if err == nil {
			_ = g.Close() // what f says is the cause
		}
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Launch enqueues the work again.
func (g *Graph) Launch(s Stream) error {
	return check("cuGraphLaunch", C.ddp_graph_launch(g.ctx.c(), g.exec, C.uintptr_t(s)))
}

// Close ends the graph; it must not be running.
func (g *Graph) Close() error {
	return check("cuGraphDestroy", C.ddp_graph_free(g.ctx.c(), g.graph, g.exec))
}
