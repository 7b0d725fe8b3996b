package checkpoint

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// saverEnv makes the test binary a process that saves into the named folder
// until it is killed.
const saverEnv = "CHECKPOINT_TEST_SAVE_INTO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverEnv); dir != "" {
		if err := saveForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// saveForEver goes on from the newest checkpoint and prints each step that
// Save reported as saved.
func saveForEver(dir string) error {
	step := 0
	path, ok, err := Latest(dir, func(err error) { fmt.Println("damaged:", err) })
	if err != nil {
		return err
	}
	if ok {
		l, err := Load(path)
		if err != nil {
			return err
		}
		step = l.State.Step
		if err := l.Close(); err != nil {
			return err
		}
	}
	for {
		step++
		if _, err := Save(dir, snapshot(step, 0)); err != nil {
			return err
		}
		fmt.Println(step)
		if err := Prune(dir, 2); err != nil {
			return err
		}
	}
}

// A process that saves without end is killed at 30 moments. Each time the
// newest checkpoint is whole, never older than what Save reported, and the
// next process goes on from it.
func TestKilledSaver(t *testing.T) {
	dir := filepath.Join(fastDir(t), "ck")
	last := 0
	for round := range 30 {
		reported := runAndKill(t, dir)
		path, ok, err := Latest(dir, func(err error) { t.Errorf("round %d: %v", round, err) })
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if !ok {
			if reported > 0 || last > 0 {
				t.Fatalf("round %d: step %d was reported, no checkpoint is there", round, max(reported, last))
			}
			continue
		}
		l, err := Load(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		step := l.State.Step
		compareContent(t, l, step, 0)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// The kill may fall between the rename and the report.
		if least := max(reported, last); step < least || step > least+1 {
			t.Errorf("round %d: newest is step %d, reported was %d", round, step, least)
		}
		last = step
	}
	if last == 0 {
		t.Error("no round got as far as a checkpoint")
	}
	if err := Prune(dir, 2); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, dir, "after the last round")
}

// runAndKill starts a saver, kills it at a random moment after its first save,
// and returns the last step it reported.
func runAndKill(t *testing.T, dir string) (reported int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), saverEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		if reported, err = strconv.Atoi(lines.Text()); err != nil {
			t.Error(lines.Text())
		}
		if first {
			go func() {
				time.Sleep(time.Duration(rand.IntN(int(20 * time.Millisecond))))
				_ = cmd.Process.Kill() // its end shows in the pipe
			}()
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the saver ended by itself: %v", err)
	}
	return reported
}
