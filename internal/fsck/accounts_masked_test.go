package fsck_test

import (
	"bytes"
	"fmt"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/redact"
	"spool/internal/service"
	"spool/pkg/events"
)

// restart begins anew with another word on secrets.
func (w *world) restart(secrets *redact.Redactor) {
	w.Helper()
	w.settle()
	w.stop()
	cfg := service.PersisterConfig{}
	if secrets != nil {
		cfg.Secrets = secrets
	}
	w.startWith(cfg)
}

// ofTheirOwn are rules that nobody else has.
func ofTheirOwn(t *testing.T) *redact.Redactor {
	t.Helper()
	text := []byte("[[rules]]\nid = \"sesame\"\nregex = 'open \\w+'\nkeywords = [\"open\"]\n")
	return redact.New(must.Get(redact.Parse(text))(t), true)
}

// What became of an entry is proved from what is stored, whatever the persisters did with secrets when they stored it:
// masked by other rules than today's, masked no more, or not masked yet.
func TestAccountOfChangedMasking(t *testing.T) {
	w := newWorld(t)
	entry := func(session, dialect string, seq int, text string) events.Event {
		id := events.Thread{Session: session, Name: "main"}
		e := events.Event{Thread: id, Producer: "p", Seq: uint64(seq), Dialect: dialect}
		if e.Body = fmt.Appendf(nil, "%d: %s", seq, text); dialect == "step" {
			e.Body = fmt.Appendf(nil, `{"id":"%d","role":"coder","content":"%s"}`, seq, text)
		}
		return e
	}
	secret := "say \\\"" + leaked + "\\\", then open sesame, and go on"
	var again []events.Event
	for i, rules := range []*redact.Redactor{redact.New(redact.Default(), true), nil, ofTheirOwn(t)} {
		w.restart(rules)
		for _, session := range []string{"step", "raw"} {
			e := entry(session, session, i+1, secret)
			w.raw(e)
			again = append(again, e)
		}
		claim := entry("step", "step", 11+i, secret)
		claim.Producer = "large"
		claim.Ref = new(events.BodyRef)
		*claim.Ref = must.Get(w.conn.Inbox().CheckIn(w.Context(), bytes.NewReader(claim.Body)))(w)
		claim.Body = nil
		w.raw(claim)
		for _, e := range again { // an ack was lost
			w.raw(e)
		}
	}
	w.wantAccounts(fsck.Accounts{Events: 6 + 3 + 2*(1+2+3), Applied: 6 + 1, Noted: 2, Repeated: 12})
	w.wantClean()

	// The same text under a name of its own is another entry: where it is nowhere, no other one stands for it.
	lost := entry("step", "step", 9, secret)
	a := w.accountLost(lostLedger{lost: &lost})
	must.Same(t, len(a.Findings), 1, "%d findings beside a lost entry, want %d")
}

// A dead letter keeps an entry masked: what comes again of it is known by that, too.
func TestAccountOfMaskedLetters(t *testing.T) {
	w := newWorld(t)
	w.restart(redact.New(redact.Default(), true))
	id := events.Thread{Session: "s", Name: "main"}
	p := events.Event{Thread: id, Producer: "p"}
	good, reused, broken := p, p, p
	good.Seq, good.Body = 1, step("one")
	reused.Seq, reused.Body = 1, step("key "+leaked)
	broken.Seq, broken.Body = 2, []byte("key "+leaked)
	last := p
	last.Seq, last.Body = 3, step("three")
	for _, e := range []events.Event{good, reused, broken, last} {
		w.raw(e)
	}
	w.restart(nil)
	w.raw(reused)
	w.raw(broken)
	w.wantAccounts(fsck.Accounts{Events: 6, Applied: 2, Refused: 2, Repeated: 2})
}
