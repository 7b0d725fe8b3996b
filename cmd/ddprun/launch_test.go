//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddprun/ddprun/internal/testkit"
)

const tinyJob = `name: tiny
device: cpu
model: {type: sequential, layers: [{op: linear, name: a, in: 1, out: 8}, {op: relu}, {op: linear, name: b, in: 8, out: 2}]}
data: {type: csv, path: ids.csv, csv: {features: "0:1", label: 1}}
sampler: {shuffle: false, seed: 3}
train: {epochs: 2, batch_size: 4}
optimizer: {type: sgd, lr: 0.01}
`

// ddprun is a launch in a folder of its own.
func ddprun(t *testing.T, dir string, args ...string) testkit.Command {
	t.Helper()
	return testkit.Command{Args: append([]string{testkit.Binary(t)}, args...), Dir: dir}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func jobFolder(t *testing.T) string {
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 64 {
		fmt.Fprintf(&rows, "%d,%d\n", i, i%2)
	}
	put(t, dir, "ids.csv", rows.String())
	put(t, dir, "tiny.yaml", tinyJob)
	return dir
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in:\n%s", p, text)
		}
	}
}

func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

// O-01
func TestProgramKeepsItsArguments(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "say.sh", `for a in "$@"; do printf '<%s>' "$a"; done; echo`)
	own := []string{"--nproc-per-node", "9", "--log", "x", "-h", "--help", "--", "--", "", "a b", "--rdzv-id=zz", "$$HOME"}
	want := "<" + strings.Join(own, "><") + ">"
	for _, launch := range [][]string{{"--nproc-per-node", "2", "--"}, {"--nproc_per_node=2"}, {"--nproc-per-node=7", "--nproc-per-node=2"}} {
		r := ddprun(t, dir, slices.Concat(launch, []string{"sh", "say.sh"}, own)...).Run(t).Want(t, 0)
		if got := sortedLines(r.Stdout); fmt.Sprint(got) != fmt.Sprint([]string{"[rank 0] " + want, "[rank 1] " + want}) {
			t.Errorf("%v: got %q", launch, got)
		}
	}
}

// O-01, O-02, O-06: nothing is started for a command line that is wrong.
func TestUsageErrors(t *testing.T) {
	dir := jobFolder(t)
	put(t, dir, "bad.yaml", "x: [")
	for _, c := range []struct {
		args string // separated by blanks, '' is an empty one
		want []string
	}{
		{"--np 2 -- true", []string{"unknown flag --np", "--nproc-per-node"}},
		{"--nproc-per-nod 2 true", []string{"did you mean --nproc-per-node"}},
		{"-x true", []string{"unknown flag -x"}},
		{"--run-path x.py", []string{"--run-path is torchrun's"}},
		{"", []string{"no command"}},
		{"--nproc-per-node 2 --", []string{"no command"}},
		{"--nproc-per-node 0 true", []string{`"0"`, "1 to 4096"}},
		{"--nproc-per-node -1 true", []string{`"-1"`}},
		{"--nproc-per-node 2.0 true", []string{`"2.0"`}},
		{"--nproc-per-node 1e9 true", []string{`"1e9"`}},
		{"--nproc-per-node '' true", []string{`""`}},
		{"--nproc-per-node 99999999999999999999 true", []string{`"99999999999999999999"`}},
		{"--nnodes 2 true", []string{"several nodes are not available"}},
		{"--nnodes 2:1 true", []string{"MIN:MAX"}},
		{"--node-rank 1 true", []string{"--node-rank"}},
		{"--max-restarts -1 true", []string{"--max-restarts"}},
		{"--shutdown-timeout soon true", []string{"--shutdown-timeout", "soon"}},
		{"--shutdown-timeout NaN true", []string{"--shutdown-timeout"}},
		{"--redirects 4 true", []string{"--redirects"}},
		{"--tee 5:1 true", []string{"--tee"}},
		{"--local-ranks-filter 1 true", []string{"--local-ranks-filter"}},
		{"--rdzv-backend etcd true", []string{"--rdzv-backend"}},
		{"--rdzv-conf a true", []string{"--rdzv-conf"}},
		{"--rdzv-endpoint ::1:29734 true", []string{"brackets"}},
		{"--rdzv-endpoint [::1] true", []string{"HOST:PORT"}},
		{"--rdzv-endpoint :29735 true", []string{"no host name"}},
		{"--rdzv-endpoint [::1 true", []string{"HOST:PORT"}},
		{"--rdzv-endpoint http://127.0.0.1:29736 true", []string{"HOST:PORT"}},
		{"--rdzv-endpoint 127.0.0.1:065536 true", []string{"HOST:PORT"}},
		{"--rdzv-endpoint 127.0.0.1: true", []string{"HOST:PORT"}},
		{"--rdzv-id ../../esc true", []string{`"../../esc"`}},
		{"--rdzv-id '' true", []string{"is empty"}},
		{"--set a=b true", []string{"--set"}},
		{"-m --no-python x", []string{"--module and --no-python"}},
		{"-m tiny.yaml", []string{"job file"}},
		{"--nproc-per-node 0 --nnodes 0 --max-restarts x true", []string{"--nproc-per-node", "--nnodes", "--max-restarts"}},
		{"tiny.yaml extra", []string{`"extra"`, "behind the job file"}},
		{"tiny.yaml --no-such", []string{"unknown flag --no-such"}},
		{"bad.yaml --nproc-per-node 2 --max-restarts 3", []string{"bad.yaml"}},
		{"missing.yaml", []string{"missing.yaml", "no such file"}},
		{"version extra", []string{`"extra"`}},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			if args[i] == "''" {
				args[i] = ""
			}
		}
		r := ddprun(t, dir, args...).Run(t)
		if r.Code != 2 {
			t.Errorf("%s: exit code %d", c.args, r.Code)
		}
		if r.Stdout != "" {
			t.Errorf("%s: stdout %q", c.args, r.Stdout)
		}
		if !strings.HasPrefix(r.Stderr, "ddprun") {
			t.Errorf("%s: stderr %q", c.args, r.Stderr)
		}
		wantParts(t, r.Stderr, c.want...)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("a run directory was made")
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--nproc-per-node=2", "--help"}, {"help"}, {"x.yaml", "--help"}} {
		r := ddprun(t, t.TempDir(), args...).Run(t).Want(t, 0)
		wantParts(t, r.Stdout, "ddprun [flags] JOB.yaml", "--nproc-per-node N", "128+n", "PET_NPROC_PER_NODE", "shard", "bench")
	}
	wantParts(t, ddprun(t, t.TempDir(), "version").Run(t).Want(t, 0).Stdout, "ddprun ", "go1.")
}

// A word that names one of our commands is a program behind "--".
func TestProgramNamedLikeACommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bench"), []byte("#!/bin/sh\necho mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := ddprun(t, dir, "--", "bench")
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	if r := cmd.Run(t).Want(t, 0); r.Stdout != "mine\n" {
		t.Errorf("got %s", r)
	}
}

func TestPythonScriptsAndModules(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	dir := t.TempDir()
	put(t, dir, "x.py", "import sys, os; print(sys.argv[1:], os.environ['RANK'], sys.stdout.line_buffering or sys.stdout.write_through)")
	if r := ddprun(t, dir, "x.py", "-v", "--lr=${local_rank}").Run(t).Want(t, 0); r.Stdout != "['-v', '--lr=0'] 0 True\n" {
		t.Errorf("script: %s", r)
	}
	if r := ddprun(t, dir, "-m", "x", "a").Run(t).Want(t, 0); !strings.HasPrefix(r.Stdout, "['a'] 0") {
		t.Errorf("module: %s", r)
	}
	if r := ddprun(t, dir, "--no-python", "./x.py").Run(t).Want(t, 126); !strings.Contains(r.Stderr, "not executable") {
		t.Errorf("no python: %s", r)
	}
	cmd := ddprun(t, dir, "x.py")
	cmd.Env = []string{"PYTHON_EXEC=echo"}
	if r := cmd.Run(t).Want(t, 0); r.Stdout != "-u x.py\n" {
		t.Errorf("interpreter: %s", r)
	}
}

func TestDefaultsFromTheEnvironment(t *testing.T) {
	run := func(env []string, args ...string) testkit.Result {
		cmd := ddprun(t, t.TempDir(), append(args, "sh", "-c", "echo $WORLD_SIZE $ROLE_NAME")...)
		cmd.Env = env
		return cmd.Run(t)
	}
	if r := run([]string{"PET_NPROC_PER_NODE=2", "PET_ROLE=actor", "PET_STANDALONE=1", "PET_RDZV_ENDPOINT="}); sortedLines(r.Stdout)[1] != "[rank 1] 2 actor" {
		t.Errorf("environment: %s", r)
	}
	if r := run([]string{"PET_NPROC_PER_NODE=7"}, "--nproc-per-node=1"); r.Stdout != "1 default\n" {
		t.Errorf("the command line must win: %s", r)
	}
	r := run([]string{"PET_NPROC_PER_NODE=x", "PET_STANDALONE=yes"}).Want(t, 2)
	wantParts(t, r.Stderr, "PET_STANDALONE", `"yes"`)
}

// O-02 (1)
func TestLeftoverRankVariablesAreIgnored(t *testing.T) {
	cmd := ddprun(t, t.TempDir(), "--nproc-per-node", "2", "sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR")
	cmd.Env = []string{"RANK=5", "WORLD_SIZE=64", "LOCAL_RANK=3", "MASTER_ADDR=elsewhere"}
	r := cmd.Run(t).Want(t, 0)
	if got := sortedLines(r.Stdout); fmt.Sprint(got) != "[[rank 0] 0/2 0 127.0.0.1 [rank 1] 1/2 1 127.0.0.1]" {
		t.Errorf("got %q", got)
	}
	if strings.Count(r.Stderr, "\n") != 1 {
		t.Errorf("want one warning: %q", r.Stderr)
	}
	wantParts(t, r.Stderr, "RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR")
}

// O-02 (2)-(5)
func TestRankStartedByHand(t *testing.T) {
	dir := jobFolder(t)
	for _, c := range []struct{ env, want string }{
		{"RANK=0 WORLD_SIZE=2", "MASTER_ADDR is not set"},
		{"RANK=0 WORLD_SIZE=two MASTER_ADDR=127.0.0.1 MASTER_PORT=29701", `WORLD_SIZE is "two"`},
		{"RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29701", `RANK is "2"`},
		{"RANK=-1 WORLD_SIZE=0 MASTER_ADDR= MASTER_PORT=70000", "4 faults"},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29701", "starts all ranks of a job itself"},
	} {
		cmd := ddprun(t, dir, "tiny.yaml")
		cmd.Env = strings.Fields(c.env)
		wantParts(t, cmd.Run(t).Want(t, 2).Stderr, c.want)
	}
}

func TestJobTrains(t *testing.T) {
	dir := jobFolder(t)
	r := ddprun(t, dir, "--rdzv-id", "one", "tiny.yaml", "--nproc_per_node=2", "--set", "train.epochs=1", "--set", "optimizer.lr=0.02").Run(t).Want(t, 0)
	_ = r
	text, err := os.ReadFile(filepath.Join(dir, "runs", "one", "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wantParts(t, string(text), "epochs: 1", "lr: 0.02", "nproc_per_node: 2")
	for _, name := range []string{"summary.json", "attempt-0/rank-1/stderr.log"} {
		if _, err := os.Stat(filepath.Join(dir, "runs", "one", name)); err != nil {
			t.Error(err)
		}
	}
	// The resolved job runs again as it stands.
	ddprun(t, dir, "runs/one/job.yaml", "--set", "checkpoint.resume=none").Run(t).Want(t, 0)
}

func TestProgramJob(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "p.yaml", "name: p\nlaunch: {nproc_per_node: 2, max_restarts: 1}\nprogram: {command: [sh, -c, 'echo $KEY $RANK $TORCHELASTIC_MAX_RESTARTS'], env: {KEY: value}}\n")
	if r := ddprun(t, dir, "p.yaml").Run(t).Want(t, 0); fmt.Sprint(sortedLines(r.Stdout)) != "[[rank 0] value 0 1 [rank 1] value 1 1]" {
		t.Errorf("got %s", r)
	}
	if r := ddprun(t, dir, "p.yaml", "--nproc-per-node=1", "--max-restarts=0").Run(t).Want(t, 0); r.Stdout != "value 0 0\n" {
		t.Errorf("flags must win: %s", r)
	}
}

func TestDryRunStartsNothing(t *testing.T) {
	dir := t.TempDir()
	r := ddprun(t, dir, "--dry-run", "--nproc-per-node=2", "--rdzv-id=x", "touch", "a b").Run(t).Want(t, 0)
	wantParts(t, r.Stdout, "2 process", "touch 'a b'", "runs/x")
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left %v", entries)
	}
}

func TestUnfitMachine(t *testing.T) {
	dir := jobFolder(t)
	put(t, dir, "file", "")
	for _, c := range []struct{ args, want string }{
		{"--nproc-per-node gpu true", "gpu"},
		{"tiny.yaml --set device=cuda", "device: cuda"},
		{"--log-dir file/x true", filepath.Join(dir, "file", "x")},
		{"--rdzv-endpoint 192.0.2.10:29721 true", "no interface of this machine"},
	} {
		r := ddprun(t, dir, strings.Fields(c.args)...).Run(t).Want(t, 69)
		wantParts(t, r.Stderr, "ddprun: ", c.want)
	}
}

// O-06: what ranks see of an endpoint that is given.
func TestEndpointIsWhatRanksSee(t *testing.T) {
	for endpoint, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1", "localhost:0": "localhost", "[::1]:0": "::1",
	} {
		r := ddprun(t, t.TempDir(), "--nproc-per-node=2", "--rdzv-endpoint", endpoint, "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT").Run(t).Want(t, 0)
		lines := sortedLines(r.Stdout)
		a, b := strings.Fields(lines[0])[2:], strings.Fields(lines[1])[2:]
		if port, err := strconv.Atoi(a[1]); err != nil || port < 1 || a[0] != want || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: %q", endpoint, lines)
		}
	}
}

// O-10: a rank of a training job is killed; the survivor's broken connection
// is not the headline, and no collective timeout is waited for.
func TestKilledTrainingRank(t *testing.T) {
	dir := jobFolder(t)
	p := ddprun(t, dir, "tiny.yaml", "--nproc-per-node=2", "--rdzv-id=k", "--set", "train.epochs=9999999", "--set", "checkpoint.every_epochs=0").Start(t)
	pid := 0
	testkit.Eventually(t, 20*time.Second, "rank 1 trains", func() bool {
		for _, f := range testkit.Carriers("DDPRUN_RUN_DIR") {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", f.PID))
			if strings.Contains(string(env), "\x00RANK=1\x00") && strings.Contains(string(env), dir) {
				pid = f.PID
			}
		}
		return pid != 0 && strings.Contains(p.Output(), "step ")
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r := p.Wait().Want(t, 137)
	wantParts(t, r.Stderr, fmt.Sprintf("ddprun: rank 1 (pid %d", pid), "killed by signal 9 (maybe out of memory)")
}

// O-13
func TestLauncherKilledWithNine(t *testing.T) {
	tag := fmt.Sprintf("sleep 301.%d", os.Getpid())
	p := ddprun(t, t.TempDir(), "--nproc-per-node=2", "sh", "-c", "echo up; "+tag+"; :").Start(t)
	testkit.Eventually(t, 20*time.Second, "ranks run", func() bool { return len(testkit.WithArgs(tag)) == 2 })
	p.Signal(syscall.SIGKILL)
	p.Wait().Want(t, 137) // fails if anything carries on
}

// A container's entry point may start a helper and then become the launcher;
// the helper is not the launcher's to kill, what ranks left behind is.
func TestEarlierChildrenAreSpared(t *testing.T) {
	dir := t.TempDir()
	cmd := ddprun(t, dir, "--nproc-per-node=1", "sh", "-c", "setsid sleep 300 & exit 0")
	cmd.Args = append([]string{"sh", "-c", `setsid sh -c 'sleep 1.5; echo > helper' & exec "$@"`, "--"}, cmd.Args...)
	p := cmd.Start(t)
	p.Wait().Want(t, 0) // waits for the helper, and fails if the rank's sleep is left
	testkit.Eventually(t, 20*time.Second, "the helper lives", func() bool {
		_, err := os.Stat(filepath.Join(dir, "helper"))
		return err == nil
	})
}

// O-12: under nohup a hang-up stays ignored, by launcher and ranks.
func TestHangUpUnderNohup(t *testing.T) {
	cmd := ddprun(t, t.TempDir(), "--nproc-per-node=1", "sh", "-c", "echo up; sleep 0.5; kill -HUP $$; echo alive")
	cmd.Args = append([]string{"sh", "-c", `trap '' HUP; exec "$@"`, "--"}, cmd.Args...)
	p := cmd.Start(t)
	p.WaitFor("up")
	p.Signal(syscall.SIGHUP)
	if r := p.Wait().Want(t, 0); !strings.Contains(r.Stdout, "alive") {
		t.Errorf("got %s", r)
	}
}

func TestStopSignalsGiveTheirCode(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := ddprun(t, t.TempDir(), "--nproc-per-node=2", "--max-restarts=2", "sh", "-c", "echo up; while :; do sleep 0.05; done").Start(t)
		testkit.Eventually(t, 20*time.Second, "ranks run", func() bool { return strings.Count(p.Output(), "up") == 2 })
		p.Signal(sig)
		r := p.Wait().Want(t, 128+int(sig))
		wantParts(t, r.Stderr, fmt.Sprintf("ddprun: stopped by signal %d", sig))
	}
}

// O-15: a full log disk (here a limit on the size of files), and a console
// that cannot be written.
func TestOutputThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	chat := `head -c 3000000 /dev/zero | tr '\0' x; echo; echo done >&2; : > ok.$RANK`
	finished := func(r testkit.Result) {
		t.Helper()
		r.Want(t, 0)
		for rank := range 2 {
			if err := os.Remove(filepath.Join(dir, fmt.Sprintf("ok.%d", rank))); err != nil {
				t.Errorf("%v\n%s", err, r)
			}
		}
	}
	limited := ddprun(t, dir, "--nproc-per-node=2", "sh", "-c", chat)
	limited.Args = append([]string{"sh", "-c", `ulimit -f 200; exec "$@"`, "--"}, limited.Args...)
	r := limited.Run(t)
	finished(r)
	wantParts(t, r.Stderr, "cannot write", "stdout.log", "file too large", "bytes lost")
	if n := strings.Count(r.Stderr, "cannot write"); n > 2 {
		t.Errorf("%d warnings:\n%s", n, r.Stderr)
	}

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	cmd := ddprun(t, dir, "--nproc-per-node=2", "sh", "-c", chat)
	cmd.Stdout = full
	r = cmd.Run(t)
	finished(r)
	wantParts(t, r.Stderr, "console (stdout): no space left on device")

	reader, gone, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer gone.Close()
	cmd = ddprun(t, dir, "--nproc-per-node=2", "sh", "-c", chat)
	cmd.Stdout, cmd.Stderr = gone, gone
	finished(cmd.Run(t))
}

// O-11 (2) and the frames of a progress bar need a terminal.
func TestOnATerminal(t *testing.T) {
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("no script(1)")
	}
	dir := t.TempDir()
	put(t, dir, "count.sh", `n=0; trap 'n=$((n+1)); echo "r$RANK int $n"' INT; echo up $DDPRUN_PROGRESS
i=0; while [ $i -lt 15 ]; do printf '%d%%\r' $i >&2; sleep 0.1; i=$((i+1)); done; echo end >&2`)
	line := testkit.Binary(t) + " --nproc-per-node 2 sh count.sh"
	cmd := testkit.Command{Dir: dir, Args: []string{"sh", "-c", `(sleep 1; printf '\003'; sleep 2.5) | exec "$0" -qec "$1" /dev/null`, script, line}}
	r := cmd.Run(t).Want(t, 130)
	wantParts(t, r.Stdout, "up bar", "r0 int 1", "r1 int 1", "\r\x1b[K", "again to kill")
	if strings.Contains(r.Stdout, "int 2") {
		t.Errorf("a rank was interrupted twice:\n%s", r.Stdout)
	}
}

// O-30
func TestSecretsStayOut(t *testing.T) {
	const secret = "zq81secret"
	dir := jobFolder(t)
	cmd := ddprun(t, dir, "-vv", "--nproc-per-node=2", "--debug-barrier", "--log-dir=L", "sh", "-c",
		`test -n "$HUB_TOKEN" || exit 9; cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -c 'zq81secre[t]'; sleep 0.2; exit 5`)
	cmd.Env = []string{"HUB_TOKEN=" + secret, "DB_URL=pg://u:" + secret + "@h/d", "DDPRUN_TOKEN=" + secret}
	r := cmd.Run(t).Want(t, 5)
	if strings.Contains(r.Stdout+r.Stderr, secret) || !strings.Contains(r.Stdout, "] 0\n") {
		t.Errorf("got %s", r)
	}
	err := filepath.WalkDir(filepath.Join(dir, "L"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Streams can be kept off the console; files have everything.
func TestConsoleFilters(t *testing.T) {
	for _, c := range []struct{ flags, stdout, stderr string }{
		{"-r 3", "", ""},
		{"-r 1", "", "[rank 0] e [rank 1] e"},
		{"-r 3 -t 0:1", "[rank 0] o", ""},
		{"--redirects=1:3", "[rank 0] o", "[rank 0] e"},
		{"--local-ranks-filter 1", "[rank 1] o", "[rank 1] e"},
	} {
		dir := t.TempDir()
		args := slices.Concat([]string{"--nproc-per-node=2", "--rdzv-id=f"}, strings.Fields(c.flags), []string{"sh", "-c", "echo o; echo e >&2"})
		r := ddprun(t, dir, args...).Run(t).Want(t, 0)
		if got := strings.Join(sortedLines(r.Stdout), " "); got != c.stdout {
			t.Errorf("%s: stdout %q", c.flags, got)
		}
		if got := strings.Join(sortedLines(r.Stderr), " "); got != c.stderr {
			t.Errorf("%s: stderr %q", c.flags, got)
		}
		for rank := range 2 {
			if text, err := os.ReadFile(filepath.Join(dir, "runs", "f", "attempt-0", fmt.Sprintf("rank-%d", rank), "stdout.log")); string(text) != "o\n" {
				t.Errorf("%s: file has %q, %v", c.flags, text, err)
			}
		}
	}
}
