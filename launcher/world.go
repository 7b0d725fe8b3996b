package launcher

import (
	"context"

	"github.com/ddprun/ddprun/internal/rankenv"
)

// World is this node's place in one attempt of a job.
type World struct {
	GroupRank int // index of this node
	Groups    int // nodes
	FirstRank int // rank of local rank 0
	Size      int // ranks of the job
	Master    Endpoint
	Store     string // host:port of the attempt's store
	Token     string // admits to it; a secret
}

// Rendezvous decides who takes part in an attempt. It is the seam between one
// node and several.
type Rendezvous interface {
	// Join returns this node's place once the nodes of the attempt have
	// gathered. attempt is the same on all nodes and never used twice; ranks is
	// what this node brings. The world's ports and store stay up until Leave;
	// when Join fails there is nothing to leave.
	Join(ctx context.Context, attempt, ranks int) (World, error)
	// Leave ends the attempt on this node.
	Leave() error
}

// env is the environment of local rank i, less what the run directory adds.
func (w World) env(i, ranks int, role string) rankenv.Env {
	rank := w.FirstRank + i
	return rankenv.Env{
		Rank: rank, WorldSize: w.Size,
		LocalRank: i, LocalWorldSize: ranks,
		GroupRank: w.GroupRank, GroupWorldSize: w.Groups,
		RoleName: role, RoleRank: rank, RoleWorldSize: w.Size,
		MasterAddr: w.Master.Addr, MasterPort: w.Master.Port,
		Store: w.Store, Token: w.Token,
	}
}
