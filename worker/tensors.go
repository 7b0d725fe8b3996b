package worker

import (
	"encoding/binary"
	"fmt"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
	"github.com/ddprun/ddprun/worker/device"
	"github.com/ddprun/ddprun/worker/tensor"
)

// modelTensors is the parameters and buffers of the model, by name.
func (r *rank) modelTensors() []*tensor.Tensor {
	ps := r.model.State()
	var ts []*tensor.Tensor
	for _, p := range ps.Params {
		ts = append(ts, p.Value)
	}
	for _, b := range ps.Buffers {
		ts = append(ts, b.Value)
	}
	return ts
}

// snapshot reads tensors for a checkpoint. Host tensors are not copied, so
// they must not change before it is written.
func snapshot(d device.Device, ts []*tensor.Tensor) ([]safetensors.Tensor, error) {
	out := make([]safetensors.Tensor, 0, len(ts))
	for _, t := range ts {
		s := safetensors.Tensor{Name: t.Name, DType: "F32", Shape: t.Shape()}
		if host := t.Float32s(); host != nil {
			s.Data = bytesOf(host)
		} else {
			s.Data = make([]byte, t.Bytes())
			if err := d.Download(s.Data, t); err != nil {
				return nil, fmt.Errorf("reading %s from the device: %w", t.Name, err)
			}
		}
		out = append(out, s)
	}
	return out, d.Synchronize()
}

// firstNonFinite is the place of the first NaN or infinity among float32
// values, -1 if there is none.
func firstNonFinite(raw []byte) int {
	for i := 0; i+4 <= len(raw); i += 4 {
		const exponent = 0x7f800000
		if binary.NativeEndian.Uint32(raw[i:])&exponent == exponent {
			return i / 4
		}
	}
	return -1
}

// loadTensors fills ts from a file that must have exactly them; nothing is
// touched unless all names and shapes fit.
func loadTensors(d device.Device, f *safetensors.File, ts []*tensor.Tensor, what string) error {
	want := make([]safetensors.Tensor, 0, len(ts))
	for _, t := range ts {
		want = append(want, safetensors.Tensor{Name: t.Name, Shape: t.Shape()})
	}
	if err := f.Match(want, false); err != nil {
		return exitcode.With(fmt.Errorf("%s: %w", what, err), exitcode.Checkpoint)
	}
	for _, t := range ts {
		values, err := f.ReadFloat32(t.Name)
		if err != nil {
			return exitcode.With(fmt.Errorf("%s: %w", what, err), exitcode.Checkpoint)
		}
		if err := d.Upload(t, bytesOf(values)); err != nil {
			return err
		}
	}
	return nil
}
