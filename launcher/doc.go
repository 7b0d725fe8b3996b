// Package launcher is the agent of one node: it starts the ranks of a job,
// watches them, stops all when one fails, starts again while the budget lasts,
// and says in one verdict what happened.
//
// Run reads top to bottom. The decisions are launcher/policy's, the processes
// launcher/proc's, the output launcher/logs'. Who takes part in an attempt is
// asked of a Rendezvous; without one the job is this node alone.
//
// Users: cmd/ddprun.
//
// Non-goals: training (the launcher never imports worker), flags, exiting.
package launcher
