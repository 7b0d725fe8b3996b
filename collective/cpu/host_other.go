//go:build unix && !linux

package cpu

import (
	"errors"
	"net"
)

// hostID is empty: without abstract names, ranks of one machine use TCP.
func hostID() string { return "" }

func listenLocal() (net.Listener, error) { return nil, errors.New("no abstract sockets here") }
