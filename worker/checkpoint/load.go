package checkpoint

import (
	"errors"
	"path/filepath"

	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
)

// Loaded is an open checkpoint that was found whole.
type Loaded struct {
	Path      string
	State     State
	Model     *safetensors.File
	Optimizer *safetensors.File
}

// Load verifies the checkpoint in folder path and opens it. Tensors are read
// on demand, so nothing of a damaged checkpoint is ever taken. The caller
// closes it.
func Load(path string) (*Loaded, error) {
	if err := Verify(path); err != nil {
		return nil, err
	}
	state, err := readState(path)
	if err != nil {
		return nil, refuse(err)
	}
	model, err := safetensors.Open(filepath.Join(path, modelFile))
	if err != nil {
		return nil, refuse(err)
	}
	optimizer, err := safetensors.Open(filepath.Join(path, optimizerFile))
	if err != nil {
		return nil, refuse(errors.Join(err, model.Close()))
	}
	return &Loaded{Path: path, State: state, Model: model, Optimizer: optimizer}, nil
}

// Close closes both files.
func (l *Loaded) Close() error { return errors.Join(l.Model.Close(), l.Optimizer.Close()) }
