// Package ddp keeps the replicas of a model equal: it compares them across
// ranks before anything is sent, broadcasts rank 0's parameters and buffers,
// and all-reduces gradients in buckets while backward still runs.
//
// Gradients are views into the buckets, so nothing is copied. A bucket goes
// out when its last gradient is final and every bucket before it has gone:
// the order is the same on all ranks whatever the order of readiness.
//
// The mean over the world size is taken in one place, LossScale: the gradient
// of the loss is divided by the world size where it is born, and the buckets
// are summed.
//
// Users: worker. Non-goals: forward and backward themselves (worker/nn), the
// transfer (collective).
package ddp
