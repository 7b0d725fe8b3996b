// Package testkit has what tests of several packages share: the built program,
// commands with a deadline, waiting for something to come true, and a look for
// processes that a test left behind.
//
// Deadlines are generous and grow with the environment variable
// TEST_TIMEOUT_SCALE (2 doubles them): they catch hangs, they measure nothing.
//
// Users: tests only.
package testkit
