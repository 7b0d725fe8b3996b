package main

import (
	"os/exec"
	"syscall"
)

// endWithParent has the launcher end, and with it the ranks, when this process
// is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
