package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// leave is how long a peer that says nothing more is still answered.
const leave = time.Minute

// Patient is a transport whose end comes when all calls before it are answered, so that a script may write its calls and
// close its output. Without it, the end of the input takes back the calls that are still served.
type Patient struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (t Patient) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	return &patient{Connection: conn, open: map[any]bool{}, changed: make(chan struct{}, 1)}, err
}

// patient knows which calls are open.
type patient struct {
	sdk.Connection
	changed chan struct{} // holds one when a call was answered, or the connection closed

	mu     sync.Mutex
	open   map[any]bool // calls without an answer, by id
	closed bool
}

// change is done under the lock, and wakes await.
func (c *patient) change(do func()) {
	c.mu.Lock()
	do()
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Read implements sdk.Connection.
func (c *patient) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if call, ok := msg.(*jsonrpc.Request); ok && call.IsCall() {
		c.change(func() { c.open[call.ID.Raw()] = true })
	}
	if errors.Is(err, io.EOF) {
		c.await(ctx)
	}
	return msg, err
}

// await returns when all calls are answered, or nobody waits for that any more.
func (c *patient) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leave)
	defer cancel()
	for done := false; !done && ctx.Err() == nil; {
		c.mu.Lock()
		done = c.closed || len(c.open) == 0
		c.mu.Unlock()
		if !done {
			select {
			case <-c.changed:
			case <-ctx.Done():
			}
		}
	}
}

// Write implements sdk.Connection.
func (c *patient) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := c.Connection.Write(ctx, msg)
	if answer, ok := msg.(*jsonrpc.Response); ok {
		c.change(func() { delete(c.open, answer.ID.Raw()) })
	}
	return err
}

// Close implements sdk.Connection.
func (c *patient) Close() error {
	c.change(func() { c.closed = true })
	return c.Connection.Close()
}
