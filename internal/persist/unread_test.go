package persist_test

import (
	"slices"
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/sessionstore"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// TestDeleteSessionWithUnreadableRecords: records of a session that this version cannot read go with it, and keep neither it nor
// the persister that removes it.
func TestDeleteSessionWithUnreadableRecords(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	r.furnish("s0")
	ctx := t.Context()
	lost := artifacts.Record{
		ID: "art_lost", Session: "s0", Filename: "x", Category: artifacts.Normal, Writer: artifacts.FromPayload, Object: "s0/art_lost/x",
		Locator: []byte("nowhere"),
	}
	for key, value := range map[string][]byte{
		events.OutputKey("s0", "bad"):                           []byte("?"),
		events.OutputKey("s0", "future"):                        {0x91, 99},
		events.RunKey("s0", "bad"):                              []byte("?"),
		events.ArtifactKey("s0", "bad"):                         []byte("?"),
		events.ArtifactKey("s0", "art_lost"):                    lost.Encode(),
		events.PromptKey(thread(0), "bad"):                      []byte("?"),
		events.LeftKey(events.Thread{Session: "s0", Name: "x"}): []byte("?"),
	} {
		must.Get(r.conn.Records().Write(ctx, record.Put{Key: key, Value: value, Expect: record.Any}))(t)
	}
	live, err := sessionstore.Of(r.conn).SessionLive(ctx, "s0")
	if err != nil || len(live.Unread) != 3 {
		t.Errorf("SessionLive = %+v, %v, want two outputs and a run that cannot be read", live, err)
	}
	remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{}}
	e := &events.Event{Producer: "operator", Seq: 1, Kind: events.KindControl, Thread: thread(0), Body: remove.Encode()}
	must.Do(t, r.conn.Events().PublishEvents(ctx, []*events.Event{e}))
	r.applied("s0")
	want := []string{events.HeadKey(events.Thread{Session: "s0", Name: "last"}), events.SessionKey("s0")}
	if keys := r.records("s0"); !slices.Equal(keys, want) {
		t.Errorf("records behind the deletion: %v, want those of its new life, %v", keys, want)
	}
	if err := p.stop(); err != nil {
		t.Errorf("the persister ended with %v", err)
	}
}
