// Package data is where samples come from: the data sets of a job file, and
// the loader that turns a rank's share of them into batches ahead of time.
//
// A data set is opened and checked as a whole before the first step: what is
// wrong with a file is said with the file, the place in it, and what was
// expected. The loader's order is that of the sampler, whatever the number of
// its workers or their timing.
//
// Users: worker.
//
// Non-goals: which rank takes which sample (sampler), moving batches to a
// device, images in folders.
package data
