package launcher

import (
	"os"
	"slices"
	"syscall"
)

// Stop signals end the job; the others are passed on to every rank.
var (
	stopSignals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	passSignals = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH}
)

// Signals lists what a launcher's process should ask for and pass to Run.
func Signals() []os.Signal {
	var all []os.Signal
	for _, s := range slices.Concat(stopSignals, passSignals) {
		all = append(all, s)
	}
	return all
}

func stops(s syscall.Signal) bool { return slices.Contains(stopSignals, s) }
