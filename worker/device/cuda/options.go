//go:build cuda

package cuda

import "github.com/ddprun/ddprun/worker/device/cuda/allocator"

// Options chooses the GPU and how it computes. The zero value is GPU 0, exact
// float32 and PyTorch's allocator settings.
type Options struct {
	Index int // of the GPU among those that the process sees
	// TF32 lets matrix products round their factors to 10 bits of mantissa.
	TF32 bool
	// FuseActivations lets cuBLASLt apply ReLU and the tanh form of GELU (and
	// its derivative) while it writes a product. It saves a pass over memory;
	// its ReLU makes a NaN 0, and its tanh is less exact than ours.
	FuseActivations bool
	// Benchmark measures several algorithms the first time a product's shape
	// comes by and keeps the fastest. Runs are then not reproducible to the
	// last bit from one process to the next.
	Benchmark bool
	// Sync waits after every kernel, so that an error is reported by the
	// operator that made it. It is for debugging.
	Sync      bool
	Allocator allocator.Options
}
