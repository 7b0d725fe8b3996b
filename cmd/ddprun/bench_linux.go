package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a rank when the launcher goes, however it goes.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
