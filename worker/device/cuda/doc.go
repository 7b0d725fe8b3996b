// Package cuda is the device of an NVIDIA GPU: tensors in its memory, from a
// caching allocator with PyTorch's behaviour; matrix products by cuBLASLt, all
// else by the kernels of kernels/. It exists only with the build tag cuda.
//
// Open locks the calling goroutine to its OS thread, which then owns the GPU's
// context: the goroutine that trains calls Open and every operator. Tensors
// may be released on any goroutine, and Handles may be used on any.
//
// Operators are enqueued on one stream, the compute stream, and return before
// they run. Numbers that a kernel refuses (a target or an index out of range)
// are reported by the next call that waits: Download, Synchronize, SumSquares.
//
// Users: cmd/ddpworker, which registers it.
//
// Non-goals: communication (collective/ncclgroup takes Handles), several GPUs
// in one process.
package cuda
