// Package rankcmd is the hidden sub-command that is one rank of a training
// job. cmd/ddprun and cmd/ddpworker share it; they differ in the backends they
// link in.
//
// Users: the two commands.
//
// Non-goals: what a rank does (worker), who starts it (launcher).
package rankcmd
