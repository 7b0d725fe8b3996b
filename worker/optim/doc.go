// Package optim updates parameters: SGD, Adam and AdamW with PyTorch's
// arithmetic, learning-rate schedules, and clipping by the global norm.
//
// Users: worker (the training loop).
//
// Non-goals: gradient exchange, loss scaling.
package optim
