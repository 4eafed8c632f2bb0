package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Who waits for what its thread refuses reads the dead letters of its thread, and none of the others of its session.
func TestAwaitReadsLettersOfItsThread(t *testing.T) {
	const others, size = 100, 8 << 10
	r := newRig(t)
	mine, noisy := events.Thread{Session: "s", Name: "mine"}, events.Thread{Session: "s", Name: "noisy"}
	var letters []events.Dead
	for i := range others {
		letters = append(letters, events.Dead{
			Thread: noisy, Kind: "entry", Subject: "spool.v1.p.3.s.noisy.entry", Seq: uint64(1_000_000 + i), Stored: 1,
			Data: fmt.Append(nil, i, strings.Repeat("x", size)), Reason: "bad",
		})
	}
	must.Do(t, r.conn.DeadLetters().Dead(t.Context(), letters))
	p := r.Publisher(client.PublisherConfig{})
	must.Do(t, p.Control(t.Context(), mine, 1, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "gone"}}))
	before := r.conn.JetStream().Conn().Stats().InBytes
	if err := r.Thread(mine).Await(limited(t), p.Producer(), 0, 1); !errors.Is(err, client.ErrRefused) {
		t.Fatalf("await = %v, want %v", err, client.ErrRefused)
	}
	if read := r.conn.JetStream().Conn().Stats().InBytes - before; read >= others*size/4 {
		t.Errorf("%d bytes were read to find a letter of %s, beside %d bytes of letters of %s", read, mine, others*size, noisy)
	}
}
