// Package proc starts ranks as processes and makes sure that none of them, nor
// anything they started, outlives the launcher.
//
// Three nets, from the inside out: each rank leads a process group that is
// signalled and swept as one; the launcher adopts orphans (child subreaper), so
// that descendants which left the group are still found; and a guard, a small
// second process, kills groups and marked descendants when the launcher itself
// is killed with -9. A rank also gets the kernel's parent-death signal, from a
// thread that lives as long as the supervisor.
//
// Users: launcher; cmd for the guard's entry point.
//
// Non-goals: restarts, output, ranks and their environment.
package proc
