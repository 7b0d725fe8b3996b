// Package proof is the handshake that opens every connection between ranks and
// to the store: both sides show that they hold the job's token without sending
// it, and agree on what the connection is for.
//
// Users: collective/store, collective/cpu.
//
// Non-goals: encryption, integrity of what follows. It keeps strangers and
// other jobs out; it does not stop somebody who can rewrite packets.
package proof
