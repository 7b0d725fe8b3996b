package cpu

import "github.com/ddprun/ddprun/worker/device/cpu/blas"

// NewWith is a device with the given matrix products.
func NewWith(p blas.Provider) *Device { return &Device{pool: newPool(), blas: p, threads: 1} }
