package metrics

import "time"

// Meter measures how fast a run goes. The time of each call is given, so that
// it needs no clock.
type Meter struct {
	start      time.Time
	done       int // steps counted since start
	rate       float64
	lastAt     time.Time
	lastSmooth bool
}

// smoothing is the weight of the newest step in the rate.
const smoothing = 0.1

// Start sets the beginning of the first step.
func (m *Meter) Start(now time.Time) { m.start, m.lastAt = now, now }

// Step counts one step that handled samples.
func (m *Meter) Step(now time.Time, samples int) {
	d := now.Sub(m.lastAt).Seconds()
	m.lastAt = now
	m.done++
	if d <= 0 {
		return
	}
	r := float64(samples) / d
	if !m.lastSmooth {
		m.rate, m.lastSmooth = r, true
		return
	}
	m.rate += smoothing * (r - m.rate)
}

// Pause tells that the time until now was spent on something else than steps.
func (m *Meter) Pause(now time.Time) {
	m.start = m.start.Add(now.Sub(m.lastAt))
	m.lastAt = now
}

// Rate is samples a second, smoothed over the last steps.
func (m *Meter) Rate() float64 { return m.rate }

// Left is how long steps more will take, by the mean of all steps so far.
func (m *Meter) Left(steps int) time.Duration {
	if m.done == 0 {
		return 0
	}
	each := m.lastAt.Sub(m.start) / time.Duration(m.done)
	return each * time.Duration(steps)
}
