package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// Failure is an error that all ranks have agreed on, so that one of them can
// report it for all.
type Failure struct {
	Rank    int    `json:"rank"` // the lowest rank that failed
	Code    int    `json:"code"` // its exit code, which every rank uses
	Message string `json:"message"`
	Failed  int    `json:"failed"` // ranks that failed
}

// everyRank, as the number of ranks that failed, is a failure of all, also
// where there is but one: no rank needs to be named.
const everyRank = math.MaxInt32

func (f *Failure) Error() string {
	if f.Failed > 1 {
		return f.Message
	}
	return fmt.Sprintf("rank %d: %s", f.Rank, f.Message)
}

// ExitCode is the exit code of the class of the error.
func (f *Failure) ExitCode() int { return f.Code }

// agree ends a stage that each rank does on its own: when any rank failed, all
// return the same Failure, and none goes on into a collective alone.
func agree(ctx context.Context, g collective.Group, own error) error {
	if g.Size() == 1 {
		if own == nil {
			return nil
		}
		return &Failure{Code: exitcode.Of(own), Message: own.Error(), Failed: everyRank}
	}
	var text []byte
	if own != nil {
		var err error
		if text, err = json.Marshal(Failure{Rank: g.Rank(), Code: exitcode.Of(own), Message: own.Error()}); err != nil {
			return err
		}
	}
	texts, err := collective.AllGatherBytes(ctx, g, text)
	if err != nil {
		if own != nil {
			return own
		}
		return fmt.Errorf("agreeing on the outcome of a stage: %w", err)
	}
	var first *Failure
	failed := 0
	for _, t := range texts {
		if len(t) == 0 {
			continue
		}
		failed++
		if first == nil {
			first = &Failure{}
			if err := json.Unmarshal(t, first); err != nil {
				return err
			}
		}
	}
	if first == nil {
		return nil
	}
	first.Failed = failed
	return first
}
