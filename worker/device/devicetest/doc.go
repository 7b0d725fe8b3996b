// Package devicetest is the suite that every device must pass: each operator
// against plain float64 loops (the twins, twin*.go), on odd shapes, with every
// optional operand there and not there, in place where the contract allows it,
// and with operands it has to refuse.
//
// It uses the device interface alone, so it runs unchanged on any hardware.
// The twins' own gradients are checked against finite differences in this
// package's tests.
//
// Users: the tests of device/cpu and device/cuda.
package devicetest
