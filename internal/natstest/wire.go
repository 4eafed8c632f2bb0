package natstest

import (
	"errors"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

// Wire leads to a server that may be away, and be another one when it is back.
type Wire struct {
	mu sync.Mutex
	to nats.InProcessConnProvider
}

// Leads says where the wire leads to; nil: nowhere.
func (w *Wire) Leads(to nats.InProcessConnProvider) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// InProcessConn is a connection to the server where the wire leads to.
func (w *Wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == nil {
		return nil, errors.New("the server is away")
	}
	return w.to.InProcessConn()
}
