package proc

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the guard, and a launcher that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "as-guard":
			if err := RunGuard(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case "as-launcher":
			launcherForTest(os.Args[2:])
			return
		}
	}
	goleak.VerifyTestMain(m)
}

func guardCommand() []string { return []string{os.Args[0], "as-guard"} }

// launcherForTest starts its arguments twice and then waits to be killed.
func launcherForTest(command []string) {
	s, err := New(Options{Guard: guardCommand()})
	for range 2 {
		if err == nil {
			_, err = s.Start(Spec{Args: command, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr})
		}
	}
	if err != nil {
		fmt.Println("error", err)
	}
	time.Sleep(time.Minute)
}
