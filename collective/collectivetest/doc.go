// Package collectivetest is the conformance suite of process groups: what
// package collective promises, checked against a dumb twin.
//
// Users: the tests of every backend.
//
// Non-goals: speed; what only one backend promises.
package collectivetest
