package ddp

import (
	"unsafe"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/worker/tensor"
)

// View describes a float32 tensor to a process group.
func View(t *tensor.Tensor) collective.Buffer {
	b := collective.Buffer{Count: t.Len(), DType: collective.Float32, Place: collective.Host, Ptr: t.Pointer()}
	if t.Place().Kind == tensor.CUDA {
		// A device address is not a Go pointer and is never followed here.
		addr := t.Addr()
		b.Place, b.Ptr = collective.CUDA, *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	}
	return b
}

// bytesOf is the memory of s as bytes.
func bytesOf(s []float32) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s))
}
