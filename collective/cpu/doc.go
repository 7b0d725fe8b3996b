// Package cpu is the process group for buffers in host memory: collectives
// over local sockets between ranks of one machine and TCP between machines.
//
// Users: worker/ddp on CPU devices, the benchmark command.
//
// A group is a full mesh of connections, made once by New. One goroutine runs
// the operations in the order in which they were enqueued and owns all
// sockets; it sends, receives and reduces in one loop around poll, so that an
// operation costs few wake-ups. Every reduction goes in rank order, whatever
// the algorithm: a result does not depend on the size of the buffer or on who
// is late. See algorithm.go for what goes over the wire.
//
// Non-goals: device memory, changing the set of ranks (make a new group),
// encryption.
package cpu
