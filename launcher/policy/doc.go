// Package policy decides what a launcher does when ranks end, signals arrive
// and time passes: whom to blame, whom to stop, whether to start again.
//
// It is a pure state machine: events and the time go in, actions come out. It
// holds no clock, starts nothing and does no I/O, so every story can be written
// down and replayed (testdata).
//
// Users: launcher, which carries the actions out.
//
// Non-goals: processes, messages to people, membership of nodes.
package policy
