package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Records of prompts, answers and runs that are lost are found by fsck and by fsck --events, which exit with 1, and a repair
// makes them again as they were. It makes again what says that events were refused, and that a thread was removed.
func TestFsckOfLostPromptsAndRuns(t *testing.T) {
	s, conn := plain(t)
	stop := natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	ctx, cl, id := t.Context(), client.New(conn), events.Thread{Session: "s", Name: "agent"}
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	post := func(seq uint64, it events.Item) {
		t.Helper()
		must.Do(t, must.Get(pub.Publish(ctx, client.Entry{Thread: id, Dialect: "item", Body: it.JSON(), Seq: seq}))(t).Applied(ctx))
	}
	for i, prompt := range []string{"open", "answered", "settled"} {
		post(uint64(i+1), events.Prompt{ID: prompt, Kind: events.PromptText, Text: "Which " + prompt + "?"}.Item())
	}
	must.Get(cl.Thread(id).Answer(ctx, events.Answer{Prompt: "answered", Answer: []byte(`"that"`), By: "mira"}))(t)
	post(4, events.PendingPromptResolved("settled", events.PromptText, events.Resolution{Outcome: events.OutcomeAnswered, By: "mira"}))
	r := must.Get(cl.Thread(id).StartRun(ctx, client.RunConfig{ID: "run", Lease: time.Hour}))(t)
	must.Do(t, r.End(ctx, artifacts.RunCompleted, "done"))
	gone := events.Thread{Session: "s", Name: "gone"} // what went with its thread is not lost
	at := cl.Publisher(client.PublisherConfig{Producer: "q"})
	must.Get(at.Publish(ctx, client.Entry{Thread: gone, Dialect: "item", Body: events.Prompt{ID: "x", Kind: "text"}.Item().JSON(), Seq: 1}))(t)
	must.Do(t, cl.Thread(gone).End(ctx, events.End{}))
	must.Do(t, cl.Thread(gone).Remove(ctx))
	none := events.Event{Kind: events.KindControl, Thread: events.Thread{Session: "s", Name: "none"}, Producer: "r", Seq: 1,
		Body: events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "x", Answer: []byte("1")}}.Encode()}
	must.Get(conn.JetStream().Publish(ctx, events.EventSubject(none.Thread, none.Kind), none.Encode()))(t) // refused
	must.Do(t, faulttest.Settle(ctx, conn))
	var refused string // the record of what was refused in the session's partition
	var nowhere []record.Identity
	for i := range events.Partitions {
		if r := must.Get(conn.Records().Records(ctx, events.RefusedKey(i)))(t)[0]; r.Exists() {
			refused, nowhere = r.Key, must.Get(record.DecodeRefused(r.Value))(t).Nowhere
		}
	}

	fsck := func(code int, args ...string) string {
		t.Helper()
		out, got := spool(t, append([]string{"fsck", "--nats", s.ClientURL()}, args...)...)
		must.Same(t, got, code, "exit code %d, want %d\n"+strings.ReplaceAll(out, "%", "%%"))
		return out
	}
	fsck(service.ExitOK)
	fsck(service.ExitOK, "--events")
	keys := []string{events.PromptKey(id, "open"), events.AnsweredKey(id, "answered"), events.AnsweredKey(id, "settled"),
		events.RunKey("s", "run")}
	before := must.Get(conn.Records().Records(ctx, keys...))(t)
	stop()
	for _, key := range append(keys, refused, events.LeftKey(gone)) {
		must.Get(conn.Records().Write(ctx, record.Put{Key: key, Expect: record.Any}))(t)
	}
	out, accounts := fsck(service.ExitFailure), fsck(service.ExitFailure, "--events")
	repaired := fsck(service.ExitFailure, "--repair", "--yes") // its findings are those from before
	after := must.Get(conn.Records().Records(ctx, keys...))(t)
	for i, key := range keys {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "missing "+key) || !strings.Contains(accounts, key) {
			t.Errorf("fsck says\n%sfsck --events says\n%swant that both name %s", out, accounts, key)
		}
		if string(after[i].Value) != string(before[i].Value) {
			t.Errorf("%s is %s, want what it was, %s\n%s", key, fmt.Sprintf("%q", after[i].Value), fmt.Sprintf("%q", before[i].Value), repaired)
		}
	}
	if !strings.Contains(out, refused) || !strings.Contains(out, events.HeadKey(gone)) {
		t.Errorf("fsck says\n%swant that it names %s, and %s, which was removed", out, refused, gone)
	}
	again := must.Get(record.DecodeRefused(must.Get(conn.Records().Records(ctx, refused))(t)[0].Value))(t)
	if len(nowhere) != 1 || !slices.Contains(again.Nowhere, nowhere[0]) {
		t.Errorf("%s names %x, want %x", refused, again.Nowhere, nowhere)
	}
	fsck(service.ExitOK)
	fsck(service.ExitOK, "--events")
}
