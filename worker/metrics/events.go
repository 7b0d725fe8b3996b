package metrics

import (
	"encoding/json"
	"math"
	"strconv"
)

// Float is a number whose NaN and infinities are written as null: JSON has no
// word for them. Which of them a number was stands in the event's "nonfinite".
type Float float64

// MarshalJSON writes the shortest text that reads back as the same number.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads null as NaN.
func (f *Float) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

// Step is one update of the parameters.
type Step struct {
	Event       string  `json:"event"` // "step"
	Attempt     int     `json:"attempt"`
	Epoch       int     `json:"epoch"` // first 0
	Step        int     `json:"step"`  // first 0
	LR          Float   `json:"lr"`
	Loss        Float   `json:"loss"`          // mean over the ranks, before the update
	LossPerRank []Float `json:"loss_per_rank"` // mean over each rank's batch
	GradNorm    Float   `json:"grad_norm"`     // of the mean gradient, before clipping
	SamplesPerS Float   `json:"samples_per_s"` // of all ranks
	StepMS      Float   `json:"step_ms"`
	DataMS      Float   `json:"data_ms"` // waiting for the loader
	CommMS      Float   `json:"comm_ms"` // waiting for gradients that backward did not hide
	Scale       Float   `json:"scale"`   // of the loss; 1 without scaling
	MemPeak     int     `json:"mem_peak_bytes"`
	Time        Float   `json:"time"` // seconds since 1970
}

// MarshalJSON adds "nonfinite", a list like ["loss=NaN", "loss_per_rank[2]=+Inf"],
// if a number that tells of the training is not finite.
func (s Step) MarshalJSON() ([]byte, error) {
	type fields Step
	var list nonFinite
	list.add("loss", s.Loss)
	for i, l := range s.LossPerRank {
		list.add("loss_per_rank["+strconv.Itoa(i)+"]", l)
	}
	list.add("grad_norm", s.GradNorm)
	list.add("scale", s.Scale)
	return json.Marshal(struct {
		fields
		NonFinite nonFinite `json:"nonfinite,omitempty"`
	}{fields(s), list})
}

// Eval is one evaluation over all ranks.
type Eval struct {
	Event    string `json:"event"` // "eval"
	Attempt  int    `json:"attempt"`
	Epoch    int    `json:"epoch"`
	Step     int    `json:"step"` // updates made before it
	Loss     Float  `json:"loss"` // mean over the targets
	Correct  int64  `json:"correct"`
	Total    int64  `json:"total"`
	Accuracy Float  `json:"accuracy"`
	Time     Float  `json:"time"`
}

// MarshalJSON adds "nonfinite" as that of Step does.
func (e Eval) MarshalJSON() ([]byte, error) {
	type fields Eval
	var list nonFinite
	list.add("loss", e.Loss)
	return json.Marshal(struct {
		fields
		NonFinite nonFinite `json:"nonfinite,omitempty"`
	}{fields(e), list})
}

type nonFinite []string

func (l *nonFinite) add(name string, f Float) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		*l = append(*l, name+"="+strconv.FormatFloat(v, 'g', -1, 64))
	}
}
