// Package store is the TCP key-value store through which ranks find each
// other: a server that the launcher (or a test) runs, and its client.
//
// A connection is admitted only with the job's token. Keys of one run and one
// attempt are kept apart with Prefix. The port is the one that the kernel gave
// to the listening socket; it is published, never guessed.
//
// Users: collective/cpu and collective/ncclgroup (bootstrap), the launcher
// (server), worker (agreement on errors).
//
// Non-goals: persistence, large values, replication.
package store
