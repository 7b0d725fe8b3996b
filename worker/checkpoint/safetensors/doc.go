// Package safetensors reads and writes the safetensors file format: named
// tensors behind a JSON header, the form in which models are published. Rules
// and limits are those of the format's description and reference
// implementation (github.com/huggingface/safetensors).
//
// A reader opens a file by its header only and fetches tensors one by one. It
// trusts nothing in the file: every length is compared with the size of the
// file before memory is taken for it. A writer gives the same bytes for the
// same tensors.
//
// Users: worker/checkpoint, worker/nn (initial parameters), the convert
// command.
//
// Non-goals: sharded models (an index over files), types of less than a byte,
// files that are not regular.
package safetensors
