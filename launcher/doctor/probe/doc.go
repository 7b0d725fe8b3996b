// Package probe asks the NVIDIA driver, and the libraries that GPU training
// needs, what they are. The questions are put by a short-lived copy of the
// launcher: a driver that crashes, hangs or prints nonsense takes only that
// copy down, and becomes an error that says so.
//
// AskDevices and AskLibraries are the launcher's side, Devices and Libraries
// what the copy runs; the answer travels as JSON.
//
// Users: launcher/doctor and cmd/ddprun.
//
// Non-goals: CUDA (a context costs seconds and memory), judging what is found
// (launcher/doctor), choosing devices (launcher/doctor/visible).
package probe
