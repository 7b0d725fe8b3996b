// Package metrics is what a run says about itself: metrics.jsonl for programs,
// a start banner and a progress line for people.
//
// Users: worker (rank 0 writes), the report and top commands (read).
//
// Non-goals: logging of events (zap), metrics servers.
package metrics
