// Package logs carries what ranks write to their log files and to the console.
//
// Files get every byte unchanged. On the console the lines of several ranks
// carry a prefix and are never mixed: a line is written whole, up to MaxPiece
// bytes; a longer one is shown in pieces of that size, each with the prefix. A
// carriage return makes what stood before it a frame that is redrawn in place
// on a terminal; elsewhere only the last frame of a line is shown. Memory is
// bounded whatever ranks write, and a full disk or a closed console costs
// output (counted, and reported once), never a rank. A console that is merely
// slow slows the ranks down, as a pipe does.
//
// Users: launcher; cmd for the launcher's own messages.
//
// Non-goals: structure of log lines, rotation, where files lie.
package logs
