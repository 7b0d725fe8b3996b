package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ddprun/ddprun/worker/checkpoint/safetensors"
)

// version is the newest form of DONE and state.json this program knows. It
// grows only when an old program would read a new checkpoint wrongly; new
// fields alone do not need it, since unknown ones are passed over.
const version = 1

// ErrNewer is a checkpoint that only a newer program can read. It is not
// damage: no older checkpoint is taken in its place.
var ErrNewer = errors.New("was written by a newer version of ddprun")

// State is what a run needs besides tensors to go on exactly as it was. Save
// sets Version.
type State struct {
	Version       int               `json:"version"`
	Step          int               `json:"step"`                    // optimizer steps done since the start of the run
	Epoch         int               `json:"epoch"`                   // epoch in progress, from 0
	Consumed      int               `json:"consumed"`                // samples of this epoch all ranks together have consumed
	Updates       int               `json:"updates"`                 // optimizer steps that were not skipped
	WorldSize     int               `json:"world_size"`              // ranks
	BatchSize     int               `json:"batch_size,omitempty"`    // samples per rank and batch
	Seed          int64             `json:"seed"`                    // of the sampler
	RNG           map[string]string `json:"rng,omitempty"`           // generator states, by who draws from them
	LossScale     float64           `json:"loss_scale"`              // 0: no scaling
	GrowthTracker int               `json:"growth_tracker"`          // clean steps since the scale last changed
	BucketLayout  [][]int           `json:"bucket_layout,omitempty"` // parameters of each gradient bucket: fixes the order of sums
	JobDigest     string            `json:"job_digest,omitempty"`    // of the settings that decide the result
	Optimizer     string            `json:"optimizer,omitempty"`     // kind: sgd, adam, adamw
}

// Snapshot is the whole state of a run at a step. Save only reads it; it must
// not change meanwhile.
type Snapshot struct {
	Model     []safetensors.Tensor // parameters and buffers
	Optimizer []safetensors.Tensor // the optimizer's slots
	State     State
}

func encodeState(s State) ([]byte, error) {
	s.Version = version
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile, err)
	}
	return append(text, '\n'), nil
}

// decodeState wants a whole state; path is for the message.
func decodeState(path string, text []byte) (State, error) {
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("%s: not a state of a run: %w", path, err)
	}
	switch {
	case s.Version > version:
		return State{}, fmt.Errorf("%s: %w (its version is %d, this program knows up to %d)", path, ErrNewer, s.Version, version)
	case s.Version < 1:
		return State{}, fmt.Errorf("%s: not a state of a run: version %d", path, s.Version)
	case s.Step < 0 || s.Epoch < 0 || s.Consumed < 0 || s.Updates < 0 || s.WorldSize < 0:
		return State{}, fmt.Errorf("%s: not a state of a run: a count is negative", path)
	}
	return s, nil
}
