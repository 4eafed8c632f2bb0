package scrub_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
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
				must.Get(conn.JetStream().PublishMsgAsync(m))(t)
			}
			<-conn.JetStream().PublishAsyncComplete()
			d := record.Deleted{State: c.state, Seq: 3000, Delete: events.Delete{Erase: c.erase}, Erased: c.erased}
			must.Get(conn.Records().Write(t.Context(), record.Put{Key: events.DeletedKey("s"), Value: d.Encode()}))(t)
			sys := natsadmin.Of(conn)
			must.Get(scrub.Look(t.Context(), sys, sys, slog.New(slog.DiscardHandler)))(t)
			s := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
			must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(1900)))
			all := must.Get(scrub.Alarms(t.Context(), sys))(t)
			if len(all) != c.alarms {
				t.Errorf("alarms: %+v, want %d", all, c.alarms)
			}
		})
	}
}
