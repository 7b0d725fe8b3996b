//go:build !cuda

// Command ddpworker is one rank of a training job, with NVIDIA GPUs and NCCL
// besides the CPU. This is what is built without the tag cuda.
package main

import (
	"fmt"
	"os"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func main() {
	fmt.Fprintln(os.Stderr, "ddpworker: built without GPU code; build it with `make ddpworker` (go build -tags cuda ./cmd/ddpworker), which needs cuda.h and libcuda.so; on a machine without GPUs, ddprun is all that is needed")
	os.Exit(exitcode.Machine)
}
