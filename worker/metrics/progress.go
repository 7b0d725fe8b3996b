package metrics

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress shows how a run goes: on a terminal as one line that is redrawn,
// elsewhere as a line every few steps. Its output goes through the launcher's
// pipe, which knows a frame by the carriage return at its end; that is why no
// library that draws on a terminal itself can be used here.
type Progress struct {
	w     io.Writer
	bar   bool
	every int // steps between plain lines, 0: none
	total int
	meter Meter
	drawn time.Time
	now   func() time.Time
}

// frameEvery bounds how often the bar is redrawn.
const frameEvery = 100 * time.Millisecond

// barWidth is the length of the bar itself in characters: with the launcher's
// prefix a frame stays within 80 columns.
const barWidth = 14

// NewProgress shows total steps on w: as a bar, or as a line every so many
// steps and after the last one, and no line at all with every 0. A frame may be
// longer than the terminal is wide: the launcher knows the width, and cuts it.
func NewProgress(w io.Writer, bar bool, every, total int) *Progress {
	p := &Progress{w: w, bar: bar, every: every, total: total, now: time.Now}
	p.meter.Start(p.now())
	return p
}

// Step shows that a step is done; done counts all steps of the run so far.
func (p *Progress) Step(epoch, done, samples int, loss, lr float64) {
	now := p.now()
	p.meter.Step(now, samples)
	if p.bar {
		if now.Sub(p.drawn) >= frameEvery || done == p.total {
			p.drawn = now
			p.print("%s\r", p.frame(epoch, done, loss))
		}
		return
	}
	if p.every > 0 && (done%p.every == 0 || done == p.total) {
		p.print("epoch %d  step %d/%d  loss %.4f  lr %.3g  samples %s  %s left\n",
			epoch, done, p.total, loss, lr, p.rate(), round(p.meter.Left(p.total-done)))
	}
}

func (p *Progress) frame(epoch, done int, loss float64) string {
	full := 0
	if p.total > 0 {
		full = barWidth * min(done, p.total) / p.total
	}
	return fmt.Sprintf("epoch %d [%s%s] %d/%d  loss %.4f  %s  %s left",
		epoch, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done, p.total, loss, p.rate(), round(p.meter.Left(p.total-done)))
}

// Eval shows an evaluation; the time it took does not count as that of steps.
func (p *Progress) Eval(epoch int, loss, accuracy float64, correct, total int64) {
	p.meter.Pause(p.now())
	p.print("epoch %d  evaluation: loss %.4f  %d of %d right (%.2f %%)\n", epoch, loss, correct, total, 100*accuracy)
}

// rate is in samples of all ranks.
func (p *Progress) rate() string {
	r := p.meter.Rate()
	if r >= 100 {
		return fmt.Sprintf("%.0f/s", r)
	}
	return fmt.Sprintf("%.3g/s", r)
}

// print ignores errors: a console that is gone must not end a run.
func (p *Progress) print(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...)
}

// round shortens a duration to what a person reads.
func round(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
