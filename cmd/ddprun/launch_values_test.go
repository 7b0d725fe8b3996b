package main

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, "10m": 10 * time.Minute} {
		var v values
		if got := v.duration("x", text, 0); got != want || v.err() != nil {
			t.Errorf("%q: %v, %v", text, got, v.err())
		}
	}
	for _, text := range []string{"", "-1", "1e300", "NaN", "Inf", "soon", "-5s"} {
		var v values
		if v.duration("x", text, 0); v.err() == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"ab", "ba", 2}} {
		if got := editDistance(c.a, c.b); got != c.want || editDistance(c.b, c.a) != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// Whatever a flag's value is, it is taken or refused, and what is taken is in
// range.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"1", "0:1,1:2", "[::1]:29500", "a=b,c=d", "1:2", "30s", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v values
		if e := v.endpoint("x", text); v.err() == nil && (e.Addr == "" || e.Port < 0 || e.Port > 65535) {
			t.Errorf("endpoint %q gave %+v", text, e)
		}
		v = values{}
		if s := v.streams("x", text, 4); s.of(0)|s.of(3) > 3 {
			t.Errorf("streams %q gave %+v", text, s)
		}
		v = values{}
		if n, err := v.ranks("x", text, func(string) (int, error) { return 2, nil }); err == nil && v.err() == nil && n < 1 {
			t.Errorf("ranks %q gave %d", text, n)
		}
		v = values{}
		v.nodes("x", text)
		v.rendezvous(&launchFlags{rdzvConf: text})
		_ = v.duration("x", text, 0)
	})
}
