// Package visible reads CUDA_VISIBLE_DEVICES as the driver does, and says which
// devices a launch has to hand out. Where the driver would quietly end the list
// or drop all of it, it gives an error that names the entry: a job that runs on
// fewer GPUs than were meant is found out too late.
//
// Users: cmd/ddprun and launcher/doctor.
//
// Non-goals: asking the driver (launcher/doctor/probe).
package visible
