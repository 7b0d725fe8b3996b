package metrics

import (
	"math"
	"time"
)

// Meter measures how fast a run goes. The time of each call is given, so that
// it needs no clock.
type Meter struct {
	lastAt time.Time
	// Samples, steps and seconds of the steps so far; older ones count less.
	samples, steps, seconds float64
}

// memory is the time after which a step counts for 1/e in the rate.
const memory = 10 * time.Second

// Start sets the beginning of the first step.
func (m *Meter) Start(now time.Time) { m.lastAt = now }

// Step counts one step that handled samples.
func (m *Meter) Step(now time.Time, samples int) {
	d := max(now.Sub(m.lastAt).Seconds(), 0)
	m.lastAt = now
	keep := math.Exp(-d / memory.Seconds())
	m.samples = m.samples*keep + float64(samples)
	m.steps = m.steps*keep + 1
	m.seconds = m.seconds*keep + d
}

// Pause tells that the time until now was spent on something else than steps.
func (m *Meter) Pause(now time.Time) { m.lastAt = now }

// Rate is samples a second over the last ten seconds or so; 0 when unknown.
func (m *Meter) Rate() float64 {
	if m.seconds <= 0 {
		return 0
	}
	return m.samples / m.seconds
}

// Left is how long steps more will take at the pace of the last ones; 0 when
// unknown.
func (m *Meter) Left(steps int) time.Duration {
	if m.steps == 0 || steps <= 0 {
		return 0
	}
	left := m.seconds / m.steps * float64(steps) * float64(time.Second)
	return time.Duration(min(left, float64(math.MaxInt64/2)))
}
