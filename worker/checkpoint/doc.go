// Package checkpoint keeps the state of a run on disk so that a run which was
// killed at any moment goes on where it was.
//
// A checkpoint is a folder step-00000036 with model.safetensors,
// optimizer.safetensors, state.json and DONE, which is written last and holds
// size and CRC-32C of the others. It is made under a temporary name in the same
// folder, every file and folder synced, then renamed: a checkpoint is there
// whole or not at all. What was damaged later is found by the checksums, said,
// and passed over for the next older one.
//
// Users: worker (one rank saves, all load), the report and convert commands.
//
// Non-goals: sharded states, remote stores, deciding when to save. One run
// writes into a folder at a time.
package checkpoint
