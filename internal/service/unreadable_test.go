package service_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/bounded"
	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// badKeys are keys of records by class: of the session "s1", or of what it has.
func badKeys(p *purged) map[string]string {
	th := events.Thread{Session: "s1", Name: "bad"}
	first := func(filter string) string {
		p.Helper()
		rs, err := p.conn.Records().List(p.Context(), filter)
		p.must(err)
		if len(rs) == 0 {
			p.Fatalf("there is no %s", filter)
		}
		return rs[0].Key
	}
	return map[string]string{
		"thread": events.HeadKey(events.Thread{Session: "s1", Name: "main"}), "history": events.HistoryKey("2026-11-20", th),
		"left": events.LeftKey(th), "session": events.SessionKey("s1"), "counter": events.CounterKey("s1"),
		"artifact": first(events.ArtifactKeys("s1", "")), "shared": events.SharedKey("an/ob/ject", "s1", "art_1"),
		"output": events.OutputKey("s1", "art_2"), "outputbase": events.OutputBaseKey("s1", "art_2"),
		"prompt": events.PromptKey(th, "q"), "answered": events.AnsweredKey(th, "q"), "run": events.RunKey("s1", "r"),
		"stream": events.StreamKey(th), "claude": events.ClaudeKey(th), "subscription": events.SubscriptionKey("s"), "pack": first("pack.*"), "blob": first("blob.*"),
		"moved":   events.MovedKey(hex.EncodeToString(make([]byte, 16))),
		"deleted": events.DeletedKey("s9"), "deleting": events.DeletingKey("s9"), "letters": events.LettersKey,
		"retention": events.RetentionKey, "gc": events.MarksKey, "fence": events.FenceKey(7), "lane": events.LaneKey(7),
		"refused": events.RefusedKey(3),
		"tried":   events.TriedKey(3),
	}
}

// listed wants all that lists something to list what can be read.
func (p *purged) listed() {
	p.Helper()
	cl, ctx := client.New(p.conn), p.Context()
	sessions, err := cl.Sessions(ctx, "")
	if err != nil || !slices.ContainsFunc(sessions, func(s client.Session) bool { return s.ID == "s2" }) {
		p.Errorf("Sessions() = %d sessions, %v", len(sessions), err)
	}
	all, err := cl.EverySession().Threads(ctx)
	if err != nil || !slices.ContainsFunc(all, func(t client.Thread) bool { return t.Thread.Session == "s2" }) {
		p.Errorf("Threads() = %d threads, %v", len(all), err)
	}
	for what, f := range map[string]func() error{
		"outputs":   func() error { _, err := cl.EverySession().Outputs(ctx); return err },
		"prompts":   func() error { _, err := cl.EverySession().Prompts(ctx); return err },
		"runs":      func() error { _, err := cl.EverySession().Runs(ctx); return err },
		"artifacts": func() error { _, err := cl.Session("s2").Artifacts(ctx); return err },
		"letters":   func() error { _, err := cl.EverySession().DeadLetters(ctx); return err },
	} {
		if err := f(); err != nil {
			p.Errorf("list %s: %v", what, err)
		}
	}
}

// One record that cannot be read, of any class, is named; it stops no listing, no other session and no collector,
// unless it may hold on to bytes: then gc names it and deletes nothing. It can be removed, with its session or by a
// repair, and then all is as before.
func TestUnreadableRecords(t *testing.T) {
	for _, class := range record.Classes {
		for name, value := range map[string][]byte{
			"no record": []byte("?"), "a later version": {0x91, 9}, "foreign": []byte(bounded.Foreign),
		} {
			t.Run(class.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := newPurged(t)
				key := badKeys(p)[class.Name]
				if key == "" {
					t.Fatalf("class %s has no key here", class.Name)
				}
				if name == "foreign" {
					p.foreign(key)
				} else {
					_, err := p.conn.Records().Write(t.Context(), record.Put{Key: key, Value: value, Expect: record.Any})
					p.must(err)
				}
				p.listed()
				p.say("s2")
				p.must(faulttest.Settle(t.Context(), p.conn))
				if missing := slices.DeleteFunc(p.missing(), func(s string) bool {
					return !strings.HasPrefix(s,
						"s2")
				}); class.Name != "pack" &&
					class.Name != "blob" && len(missing) > 0 {
					t.Errorf("missing: %v", missing)
				}
				p.unreadable(class, key, value)
				if _, err := client.New(p.conn).Session("s1").Delete(t.Context(), client.Deletion{Force: true,
					By: "test"}); err != nil {
					t.Errorf("remove its session: %v", err)
				}
				said, clean := p.repairWith(fsck.Config{Cut: name == "a later version"}) // nobody has a later version here
				if !clean {
					t.Errorf("after a repair: %v", said)
				}
				p.listed()
				if _, err := p.collectAny(); err != nil {
					t.Errorf("then gc = %v", err)
				}
			})
		}
	}
}

// foreign puts a record again as it is, or as what its class may have, by a hand that makes no check.
func (p *purged) foreign(key string) {
	p.Helper()
	rs, err := p.conn.Records().Records(p.Context(), key)
	p.must(err)
	value := rs[0].Value
	if len(value) == 0 {
		value = []byte{0x93, 1, 1, 1}
	}
	_, err = p.conn.JetStream().Publish(p.Context(), events.RecordSubject(key), value)
	p.must(err)
}

// unreadable wants fsck to name a record, and gc to go on or to name it.
func (p *purged) unreadable(class record.Class, key string, value []byte) {
	p.Helper()
	if class.Check(value) != nil && !class.Sequence {
		rep, err := fsck.Check(p.Context(), natsadmin.Of(p.conn), fsck.Config{})
		if err != nil {
			p.Errorf("fsck: %v", err)
		} else if !slices.ContainsFunc(rep.Findings, func(f fsck.Finding) bool { return f.Record == key }) {
			p.Errorf("fsck does not name %s: %v", key, rep.Findings)
		}
	}
	_, err := p.collectAny()
	switch {
	case class.Name == "artifact" && !errors.Is(class.Check(value), artifacts.ErrLater):
		p.steppedOver(key)
	case err == nil && class.Keeps != record.Nothing:
		p.Errorf("gc goes on beside %s, which may hold on to bytes", key)
	case err != nil && class.Keeps == record.Nothing:
		p.Errorf("gc = %v", err)
	case err != nil && (!errors.Is(err, gc.ErrUnsafe) || !strings.Contains(fmt.Sprint(err), key)):
		p.Errorf("gc = %v, want it to name %s", err, key)
	}
}

// steppedOver wants gc to go on beside an artifact that cannot be read, and all who list artifacts to list the others; each names it.
func (p *purged) steppedOver(key string) {
	p.Helper()
	rep, err := p.collectAny()
	if err != nil || !strings.Contains(strings.Join(rep.Anomalies, "\n"), key) {
		p.Errorf("gc = %v, %q; want it to go on and to name %s", err, rep.Anomalies, key)
	}
	cl := client.New(p.conn)
	other, err := cl.Artifacts().Put(p.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s1"}}, strings.NewReader("other"))
	p.must(err)
	all, err := cl.EverySession().Artifacts(p.Context())
	if !slices.ContainsFunc(all, func(r artifacts.Record) bool { return r.ID == other.ID }) || !strings.Contains(fmt.Sprint(err), key) {
		p.Errorf("Artifacts() = %d, %v; want %s, and %s named", len(all), err, other.ID, key)
	}
	cleaned, err := cl.Artifacts().Cleanup(p.Context(), artifacts.Cleanup{EverySession: true, IncludeAll: true})
	if err != nil || len(cleaned.Candidates) != len(all) || len(cleaned.Failures) != 1 ||
		!strings.Contains(fmt.Sprint(cleaned.Failures[0].Err), key) {
		p.Errorf("CleanupArtifacts() = %+v, %v; want %d candidates, and %s named", cleaned, err, len(all), key)
	}
	body, err := cl.Session("s1").Resolve(p.Context(), "artifact://"+string(other.Seq), artifacts.Lines{})
	if err != nil {
		p.Errorf("read an artifact beside %s: %v", key, err)
		return
	}
	p.must(body.Body.Close())
}

// A head that cannot be read is made again by a repair, with all that it had, beside a persister that latched it.
func TestUnreadableHeadIsMadeAgain(t *testing.T) {
	p := newPurged(t)
	_, err := p.conn.Records().Write(t.Context(), record.Put{
		Key: events.HeadKey(events.Thread{Session: "s1", Name: "main"}), Value: []byte("?"), Expect: record.Any,
	})
	p.must(err)
	if len(p.missing()) == 0 {
		t.Fatal("nothing is missing: nothing is tried here")
	}
	if said, clean := p.repair(); !clean {
		t.Errorf("after a repair: %v", said)
	}
	p.say("s1")
	p.must(faulttest.Settle(t.Context(), p.conn))
	if missing := p.missing(); len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
}
