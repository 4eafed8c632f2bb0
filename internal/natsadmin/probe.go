package natsadmin

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/events"
)

// probeBytes is what Stores stores: more than what is left in the last block of a full disk.
const probeBytes = 32 << 10

// Stores stores something that nobody reads, in the place of what it stored the last time. A server whose disk is full answers every
// question, and no publish. record.ErrDenied: this user may not find out.
func (a *Admin) Stores(ctx context.Context) error {
	m := &nats.Msg{Subject: events.ProbeSubject, Data: make([]byte, probeBytes), Header: nats.Header{"Nats-Rollup": {"sub"}}}
	_, err := a.streams.Send(ctx, []*nats.Msg{m})
	if err == nil || errors.Is(err, record.ErrDenied) {
		return err
	}
	return fmt.Errorf("the server stores nothing: is its disk full, read-only or failing? Mend that, then restart it: %w", err)
}
