// Package allocator is the policy of a caching allocator for device memory,
// with the observable behaviour of PyTorch's: the same size classes, splitting,
// best fit, reuse by stream, retry after emptying the cache and statistics. It
// takes segments from a Driver and hands out blocks of them.
//
// A block freed by the host may still be used by work that the stream holds;
// it is handed out again only to the same stream, whose order makes that safe.
// Other streams that use a block are told with RecordStream; then it waits for
// events on them.
//
// It is plain Go and knows no CUDA, so tests drive it with a fake driver.
//
// Users: worker/device/cuda.
//
// Non-goals: host memory, expandable segments, memory pools of graphs.
package allocator
