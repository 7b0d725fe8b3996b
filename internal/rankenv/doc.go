// Package rankenv is the only reader and writer of RANK and its friends: the
// environment through which a launcher tells a process which rank it is.
//
// Names and meanings are those of torchrun (torch.distributed.elastic), so that
// existing scripts and libraries run unchanged; what only this project has
// begins with DDPRUN_. The package also has the error file through which a rank
// tells its launcher why it ended, in the shapes that torchrun knows.
//
// Users: launcher (writes), worker and cmd (read).
//
// Non-goals: choosing ranks, ports or tokens; printing values (they may be
// secret).
package rankenv
