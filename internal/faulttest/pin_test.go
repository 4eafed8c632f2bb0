package faulttest_test

import (
	"testing"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestStoppedPersisterIsNotPinned: what is published between the end of one persister and the start of the next does not wait for
// the pin of the one that is gone, in partitions of which it was never given anything neither.
func TestStoppedPersisterIsNotPinned(t *testing.T) {
	conn := natstest.Conn(t)
	must.Do(t, faulttest.Start(t, conn, nil).Stop())
	l := faulttest.NewLedger(faulttest.Workload{Sessions: 20})
	must.Do(t, l.Publish(within(t), client.New(conn), 10))
	s := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	list := s.ListConsumers(t.Context())
	for info := range list.Info() {
		for _, g := range info.PriorityGroups {
			if g.PinnedClientID != "" {
				t.Errorf("%s is pinned to one that has stopped", info.Name)
			}
		}
	}
	must.Do(t, list.Err())
	faulttest.Start(t, conn, nil)
	if err := l.Check(within(t), conn); err != nil {
		t.Error(err)
	}
}
