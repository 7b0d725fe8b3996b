package launcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/ddprun/ddprun/collective/store"
	"github.com/ddprun/ddprun/internal/exitcode"
)

// oneNode is the rendezvous of a job that is this node alone: nobody to wait
// for, loopback only, and no name lookup.
type oneNode struct {
	master Endpoint
	server *store.Server
	port   *reservation
}

// Join opens a new store with a new token, and reserves a port for rank 0, so
// that nothing of an earlier attempt can be met again.
func (o *oneNode) Join(ctx context.Context, _, ranks int) (World, error) {
	master := o.master
	if master.Addr == "" {
		master.Addr = "127.0.0.1"
	}
	port, err := reserve(master)
	if err != nil {
		return World{}, err
	}
	token := store.NewToken()
	server, err := store.Listen(context.WithoutCancel(ctx), "127.0.0.1:0", token)
	if err != nil {
		port.release()
		return World{}, exitcode.With(fmt.Errorf("store on 127.0.0.1: %w", err), exitcode.Machine)
	}
	o.server, o.port = server, port
	master.Port = port.number
	return World{
		Groups: 1, Size: ranks, Master: master,
		Store: server.Addr(), Token: token,
	}, nil
}

func (o *oneNode) Leave() error {
	var err error
	if o.server != nil {
		err = o.server.Close()
	}
	if o.port != nil {
		err = errors.Join(err, o.port.release())
	}
	o.server, o.port = nil, nil
	return err
}
