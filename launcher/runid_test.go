package launcher

import (
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func TestCheckRunID(t *testing.T) {
	for _, good := range []string{"Night-run_7.b", "a", "7", strings.Repeat("x", 64)} {
		if err := CheckRunID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"../../esc", "..", ".", "", "a/b", `a\b`, "-rf", "~", "n\nl", "c\x01", "a b", "%2e%2e%2fz", "ü", strings.Repeat("x", 65), "/abs", ".hidden", "_x", "a\xff"} {
		err := CheckRunID(bad)
		if exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%q: %v", bad, err)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n\x01") {
			t.Errorf("%q is shown raw", bad)
		}
	}
}

func FuzzNewRunID(f *testing.F) {
	f.Add("../..")
	f.Add("digits")
	f.Add("")
	f.Add(strings.Repeat("ü", 200))
	f.Fuzz(func(t *testing.T, name string) {
		a, b := NewRunID(name, time.Now()), NewRunID(name, time.Now())
		if err := CheckRunID(a); err != nil {
			t.Error(err)
		}
		if a[:len(a)-4] == b[:len(b)-4] && a == b {
			t.Logf("same id twice: %s", a) // one in 65536
		}
	})
}
