package rankenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func whole() Env {
	return Env{
		Rank: 5, LocalRank: 1, WorldSize: 8, LocalWorldSize: 4, GroupRank: 1, GroupWorldSize: 2,
		RoleName: "trainer", RoleRank: 5, RoleWorldSize: 8, MasterAddr: "::1", MasterPort: 29500,
		RunID: "night", Attempt: 3, RestartCount: 2, MaxRestarts: 4, ErrorFile: "/r/error.json",
		Store: "127.0.0.1:4711", Token: "tok", RunDir: "/r", Timeout: 90 * time.Second,
		BarrierTimeout: 30 * time.Second, Progress: ProgressBar,
	}
}

func lookupIn(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, found := "", false
		for _, kv := range environ {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				value, found = v, true
			}
		}
		return value, found
	}
}

func TestEnvironIsReadBack(t *testing.T) {
	want := whole()
	got, err := Read(lookupIn(want.Environ(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !got.Launched() {
		t.Error("an environment made by Environ must count as launched")
	}
}

// The names that scripts and libraries written for torchrun depend on.
func TestEnvironHasTorchrunsNames(t *testing.T) {
	env := whole().Environ([]string{"HOME=/h"})
	for _, want := range []string{
		"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2",
		"ROLE_NAME=trainer", "ROLE_RANK=5", "ROLE_WORLD_SIZE=8", "MASTER_ADDR=::1", "MASTER_PORT=29500",
		"TORCHELASTIC_RUN_ID=night", "TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_MAX_RESTARTS=4",
		"TORCHELASTIC_ERROR_FILE=/r/error.json", "TORCHELASTIC_USE_AGENT_STORE=False",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=1",
		"DDPRUN_ATTEMPT=3", "DDPRUN_STORE=127.0.0.1:4711", "DDPRUN_TOKEN=tok", "DDPRUN_RUN_DIR=/r", "HOME=/h",
	} {
		if n := count(env, want); n != 1 {
			t.Errorf("%s appears %d times", want, n)
		}
	}
}

func count(env []string, kv string) int {
	n := 0
	for _, e := range env {
		if e == kv {
			n++
		}
	}
	return n
}

func TestEnvironReplacesWhatWasInherited(t *testing.T) {
	env := whole().Environ([]string{"RANK=64", "DDPRUN_TOKEN=old", "OMP_NUM_THREADS=6", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"})
	seen := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		if _, twice := seen[k]; twice {
			t.Errorf("%s is set twice", k)
		}
		seen[k] = v
	}
	for k, want := range map[string]string{"RANK": "5", "DDPRUN_TOKEN": "tok", "OMP_NUM_THREADS": "6", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"} {
		if seen[k] != want {
			t.Errorf("%s=%s, want %s", k, seen[k], want)
		}
	}
}

func TestOneRankKeepsItsThreads(t *testing.T) {
	e := whole()
	e.LocalWorldSize, e.LocalRank = 1, 0
	if v, ok := lookupIn(e.Environ(nil))("OMP_NUM_THREADS"); ok {
		t.Errorf("OMP_NUM_THREADS=%s for a single rank", v)
	}
}

func TestLeftovers(t *testing.T) {
	got := Leftovers([]string{"RANKS=1", "WORLD_SIZE=64", "RANK=", "X=RANK=1"})
	if want := []string{"RANK", "WORLD_SIZE"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestByHand(t *testing.T) {
	for environ, want := range map[string]bool{"RANK=0": true, "WORLD_SIZE=": true, "LOCAL_RANK=0": false, "": false} {
		if ByHand([]string{"HOME=/h", environ}) != want {
			t.Errorf("%q: not %v", environ, want)
		}
	}
}

func TestReadReportsEveryFault(t *testing.T) {
	hand := "MASTER_ADDR=127.0.0.1 MASTER_PORT=29701"
	for _, c := range []struct {
		env  string
		want []string // "|" separates what must stand in one line
	}{
		{"RANK=0 WORLD_SIZE=2", []string{"MASTER_ADDR is not set", "MASTER_PORT is not set|1 to 65535"}},
		{"RANK=0 WORLD_SIZE=two " + hand, []string{`WORLD_SIZE is "two"|from 1`}},
		{"RANK=2 WORLD_SIZE=2 " + hand, []string{`RANK is "2"|from 0 to 1|WORLD_SIZE is 2`}},
		{"RANK=-1 WORLD_SIZE=0 MASTER_ADDR= MASTER_PORT=70000", []string{`RANK is "-1"`, `WORLD_SIZE is "0"`, `MASTER_ADDR is ""`, `MASTER_PORT is "70000"|1 to 65535`}},
		{"RANK=99999999999999999999 WORLD_SIZE=2 " + hand, []string{`RANK is "99999999999999999999"`}},
		{"RANK= WORLD_SIZE=+2 " + hand, []string{`RANK is ""`, `WORLD_SIZE is "+2"`}},
		{"RANK=0 WORLD_SIZE=1 DDPRUN_STORE=a:1 " + hand, []string{"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "DDPRUN_TOKEN", "DDPRUN_RUN_DIR", "DDPRUN_ATTEMPT"}},
		{"RANK=0 WORLD_SIZE=1 DDPRUN_TIMEOUT=-1s DDPRUN_PROGRESS=loud " + hand, []string{"DDPRUN_TIMEOUT", "DDPRUN_PROGRESS"}},
	} {
		_, err := Read(lookupIn(strings.Fields(c.env)))
		if err == nil {
			t.Errorf("%s: no error", c.env)
			continue
		}
		if code := exitcode.Of(err); code != exitcode.Usage {
			t.Errorf("%s: exit code %d", c.env, code)
		}
		var f faults
		if !errors.As(err, &f) || len(f) != len(c.want) {
			t.Errorf("%s: want %d faults, got: %v", c.env, len(c.want), err)
		}
		for _, want := range c.want {
			if !hasLine(err.Error(), strings.Split(want, "|")) {
				t.Errorf("%s: no line with %q in: %v", c.env, want, err)
			}
		}
	}
}

func hasLine(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

func TestReadWithoutLauncherMeansOneRankANode(t *testing.T) {
	e, err := Read(lookupIn(strings.Fields("RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1")))
	if err != nil {
		t.Fatal(err)
	}
	want := Env{
		Rank: 1, WorldSize: 2, LocalWorldSize: 1, GroupRank: 1, GroupWorldSize: 2, RoleRank: 1, RoleWorldSize: 2,
		MasterAddr: "h", MasterPort: 1, Progress: ProgressLines,
	}
	if e != want || e.Launched() {
		t.Errorf("got %+v", e)
	}
}

func TestReadNeverShowsTheToken(t *testing.T) {
	e := whole()
	e.Rank, e.Token = -1, "zq81secret"
	_, err := Read(lookupIn(e.Environ(nil)))
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "zq81secret") {
		t.Errorf("err = %v", err)
	}
}

func TestReportIsReadBack(t *testing.T) {
	e := Env{ErrorFile: filepath.Join(t.TempDir(), "error.json")}
	want := Report{Message: "data: digits.csv: line 3: label 11", Stack: "a\nb", Time: time.Unix(1700000000, 0), Victim: true}
	if err := e.WriteReport(want); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(e.ErrorFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := ReadReport(f)
	if err != nil || !got.Time.Equal(want.Time) {
		t.Fatalf("got %+v, %v", got, err)
	}
	got.Time = want.Time
	if got != want {
		t.Errorf("got %+v", got)
	}
	if err := (Env{}).WriteReport(want); err != nil {
		t.Errorf("no file asked for: %v", err)
	}
}

func TestReadReportKnowsBothShapes(t *testing.T) {
	for _, c := range []struct {
		text, message, stack string
		sec                  int64
	}{
		{`{"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"tb","timestamp":"1700000000"}}}`, "ValueError: x", "tb", 1700000000},
		{`{"message":"boom","timestamp":1700000001}`, "boom", "", 1700000001},
		{`{"message":"boom","timestamp":"1700000001","errorCode":1}`, "boom", "", 1700000001},
		{`{"message":{"message":"m","errorCode":3}}`, "m", "", 0},
	} {
		got, err := ReadReport(strings.NewReader(c.text))
		if err != nil || got.Message != c.message || got.Stack != c.stack {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
		if c.sec != 0 && got.Time.Unix() != c.sec {
			t.Errorf("%s: time %v", c.text, got.Time)
		}
	}
	for _, bad := range []string{"", "{", "[]", `{"message":7}`, `{"message":" "}`, `{}`, `{"message":{}}`} {
		if r, err := ReadReport(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, r)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add(`{"message":{"message":"a","extraInfo":{"timestamp":"1"}}}`)
	f.Add(`{"message":"a","timestamp":1e300}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ReadReport(strings.NewReader(text)); err == nil && r.Message == "" {
			t.Errorf("%q: empty message without an error", text)
		}
	})
}
