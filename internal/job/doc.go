// Package job is the job file: its schema, a strict decoder that reports every
// problem with file, line and column, and the writer of the resolved job.
//
// Users: cmd (load, override, check before anything starts), launcher (the
// launch section), worker (everything else).
//
// Non-goals: opening data files, knowing what devices exist, running anything.
package job
