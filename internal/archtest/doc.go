// Package archtest enforces the shape of the house: which folder may import
// which, who may use a dependency, and what every package must have. It has no
// code of its own; `go test` runs it.
//
// Users: CI, and whoever adds a package.
//
// Non-goals: style that gofmt, vet or staticcheck already check.
package archtest
