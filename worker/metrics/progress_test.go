package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestMeterFollowsAChangeOfPace(t *testing.T) {
	var m Meter
	at := time.Unix(0, 0)
	m.Start(at)
	if m.Rate() != 0 || m.Left(5) != 0 {
		t.Error("a meter knows before the first step")
	}
	run := func(steps int, each time.Duration) {
		for range steps {
			at = at.Add(each)
			m.Step(at, 10)
		}
	}
	run(1, 5*time.Second) // the first step warms up
	run(3000, 20*time.Millisecond)
	if r := m.Rate(); math.Abs(r-500) > 5 {
		t.Errorf("rate %g, want 500", r)
	}
	run(600, 200*time.Millisecond)
	if r := m.Rate(); math.Abs(r-50) > 1 {
		t.Errorf("rate %g, want 50", r)
	}
	if left := m.Left(100); left < 19*time.Second || left > 21*time.Second {
		t.Errorf("%v left, want 20s", left)
	}
}

// Steps that alternate between fast and slow: the rate is samples by time, not
// a mean of rates.
func TestMeterIsNotFooledByJitter(t *testing.T) {
	var m Meter
	at := time.Unix(0, 0)
	m.Start(at)
	for i := range 1000 {
		d := time.Millisecond
		if i%2 == 1 {
			d = 19 * time.Millisecond
		}
		at = at.Add(d)
		m.Step(at, 1)
	}
	if r := m.Rate(); math.Abs(r-100) > 2 {
		t.Errorf("rate %g, want 100", r)
	}
}

func TestMeterSurvivesAClockThatStands(t *testing.T) {
	var m Meter
	at := time.Unix(0, 0)
	m.Start(at)
	m.Step(at, 4)
	m.Step(at.Add(-time.Second), 4)
	if r := m.Rate(); r != 0 || m.Left(10) != 0 {
		t.Errorf("rate %g", r)
	}
}

func TestLogEvery0ShowsNoSteps(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false, 0, 3)
	for i := 1; i <= 3; i++ {
		p.Step(0, i, 8, 0.5, 0.1)
	}
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
	p.Eval(0, 1, 0.5, 1, 2)
	if !strings.Contains(out.String(), "1 of 2 right") {
		t.Errorf("%q", out.String())
	}
}

func TestFrameShowsHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, true, 10, 4)
	clock(p, time.Second)
	for i := 1; i <= 4; i++ {
		p.Step(2, i, 30, 0.25, 0.1)
	}
	frames := strings.Split(strings.TrimSuffix(out.String(), "\r"), "\r")
	if len(frames) != 4 {
		t.Fatalf("%q", frames)
	}
	for _, want := range []string{"epoch 2", "1/4", "0.2500", "30/s", "3s left"} {
		if !strings.Contains(frames[0], want) {
			t.Errorf("%q is not in %q", want, frames[0])
		}
	}
	for i, f := range frames {
		if got, want := strings.Count(f, "="), barWidth*(i+1)/4; got != want {
			t.Errorf("frame %d has %d marks, want %d: %q", i, got, want, f)
		}
		if len(f) > 79 {
			t.Errorf("frame %d has %d characters", i, len(f))
		}
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		1499 * time.Millisecond:  "1s",
		59600 * time.Millisecond: "1m00s",
		61 * time.Second:         "1m01s",
		time.Hour:                "1h00m",
		26*time.Hour + 90*1e9:    "26h01m",
	} {
		if got := round(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestBannerKeepsToItsLines(t *testing.T) {
	var out bytes.Buffer
	if err := Banner(&out, []Item{{"run\x1b[2J", ""}, {"dir", "a\nb"}, {"größe", "1"}, {"k", "2"}}); err != nil {
		t.Fatal(err)
	}
	want := "\"run\\x1b[2J\"\n  dir    \"a\\nb\"\n  größe  1\n  k      2\n"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}
