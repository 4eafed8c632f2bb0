package scrub_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// What a deletion or an erasure takes from the streams is no loss, whenever marks were taken on its way. Behind its end
// the same is one.
func TestDeletionsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		state         record.DeletedState
		erase, erased bool
		alarms        int
	}{
		"records are gone, streams are not": {state: record.Removed},
		"streams are being written over":    {state: record.Done, erase: true},
		"it is at its end":                  {state: record.Done, alarms: 1},
		"the erasure is at its end":         {state: record.Done, erase: true, erased: true, alarms: 1},
	} {
		t.Run(name, func(t *testing.T) {
			conn, stop := open(t, t.TempDir())
			defer stop()
			th := events.Thread{Session: "s", Name: "main"}
			for i := range 2000 {
				m := &nats.Msg{Subject: events.EventSubject(th, events.KindEntry), Data: fmt.Append(nil, i)}
				_, err := conn.JetStream().PublishMsgAsync(m)
				must(t, err)
			}
			<-conn.JetStream().PublishAsyncComplete()
			d := record.Deleted{State: c.state, Seq: 3000, Delete: events.Delete{Erase: c.erase}, Erased: c.erased}
			_, err := conn.Records().Write(t.Context(), record.Put{Key: events.DeletedKey("s"), Value: d.Encode()})
			must(t, err)
			sys := natsadmin.Of(conn)
			_, err = scrub.Look(t.Context(), sys, sys, slog.New(slog.DiscardHandler))
			must(t, err)
			s, err := conn.JetStream().Stream(t.Context(), events.EventsStream)
			must(t, err)
			must(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(1900)))
			all, err := scrub.Alarms(t.Context(), sys)
			must(t, err)
			if len(all) != c.alarms {
				t.Errorf("alarms: %+v, want %d", all, c.alarms)
			}
		})
	}
}
