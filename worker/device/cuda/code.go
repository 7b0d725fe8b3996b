//go:build cuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/ddprun/ddprun/worker/device/cuda/driver"
	"github.com/ddprun/ddprun/worker/device/cuda/kernels"
)

// code is the kernels that have been used so far. A module is compiled for the
// GPU at the first use of a kernel in it.
type code struct {
	ctx       *driver.Context
	modules   map[string]driver.Module
	functions map[string]function
}

type function struct {
	handle driver.Function
	params string // types of its parameters
}

func newCode(ctx *driver.Context) code {
	return code{ctx: ctx, modules: map[string]driver.Module{}, functions: map[string]function{}}
}

// find returns a kernel by name.
func (c *code) find(name string) (function, error) {
	if f, ok := c.functions[name]; ok {
		return f, nil
	}
	k, ok := kernels.Lookup(name)
	if !ok {
		return function{}, fmt.Errorf("there is no kernel %s", name)
	}
	m, err := c.module(k.Module)
	if err != nil {
		return function{}, err
	}
	h, err := c.ctx.Function(m, name)
	if err != nil {
		return function{}, err
	}
	f := function{handle: h, params: k.Params}
	c.functions[name] = f
	return f, nil
}

func (c *code) module(name string) (driver.Module, error) {
	if m, ok := c.modules[name]; ok {
		return m, nil
	}
	text, err := kernels.PTX(name)
	if err != nil {
		return 0, err
	}
	m, err := c.ctx.Load(text)
	if err != nil {
		return 0, fmt.Errorf("kernels of %s.cu: %w", name, err)
	}
	c.modules[name] = m
	return m, nil
}

func (c *code) close() error {
	var errs []error
	for _, m := range c.modules {
		errs = append(errs, c.ctx.Unload(m))
	}
	c.modules, c.functions = nil, nil
	return errors.Join(errs...)
}

// Warm compiles and loads all kernels at once, so that no step waits for it
// and a driver that cannot is found out at the start.
func (d *Device) Warm() error {
	for name := range kernels.All() {
		if _, err := d.code.find(name); err != nil {
			return d.named("loading the kernels", err)
		}
	}
	return nil
}
