package cpu_test

import (
	"testing"

	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/device/cpu"
	"github.com/ddprun/ddprun/worker/device/devicetest"
)

func TestDevice(t *testing.T) {
	for _, library := range []string{"auto", "avx2", "gonum"} {
		t.Run(library, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device { return open(t, library) }, devicetest.Float32)
		})
	}
}

func open(t testing.TB, library string) *cpu.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{BLAS: library})
	if err != nil {
		t.Skip(err)
	}
	return d
}
