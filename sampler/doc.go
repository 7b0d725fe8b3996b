// Package sampler decides which samples a rank trains on, and in which order:
// index for index what PyTorch's DistributedSampler yields, its CPU randperm
// included, so that a run can be compared with PyTorch sample by sample.
//
// It is a pure function of (length, world size, rank, seed, epoch, samples
// already consumed): no state, no input or output, standard library only.
//
// Users: worker/data (what to load next), worker (resume inside an epoch),
// worker/nn (Generator, for parameters drawn as PyTorch draws them), the shard
// command.
//
// Non-goals: batching, loading, samplers with weights or replacement.
package sampler
