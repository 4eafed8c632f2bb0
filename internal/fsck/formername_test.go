package fsck_test

import (
	"encoding/json"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/pkg/events"
)

func answerOp(text string) events.Control {
	return events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q", Answer: json.RawMessage(`"` + text + `"`)}}
}

// asks is an entry that asks something.
func asks(t events.Thread, seq uint64) events.Event {
	e := entryOf(t, "p", seq, 0, "")
	e.Dialect, e.Body = "item", events.Prompt{ID: "q", Kind: events.PromptText, Text: "Well?"}.Item().JSON()
	return e
}

// An answer that comes under a name that its thread had, or of a prompt that was asked under one, is a dead letter or a
// repeat; where the dead letters were purged, with the notes of those that were removed, those that had one are named, and no others.
func TestAccountOfAnswersUnderAFormerName(t *testing.T) {
	for name, c := range map[string][]any{
		"late":  {asks(thA, 1), opOf(thA, "m", 1, 0, answerOp("yes")), renames(thA, "b"), opOf(thA, "n", 1, 0, answerOp("no"))},
		"again": {asks(thA, 1), opOf(thA, "m", 1, 0, answerOp("yes")), renames(thA, "b"), opOf(thA, "m", 1, 0, answerOp("yes"))},
		"now":   {asks(thA, 1), opOf(thA, "m", 1, 0, answerOp("yes")), renames(thA, "b"), opOf(thB, "n", 1, 0, answerOp("no"))},
		"in a new life": {asks(thA, 1), opOf(thA, "m", 1, 0, answerOp("yes")), renames(thA, "b"), says(thA, "q", 1, 1),
			opOf(thA, "n", 1, 0, answerOp("no"))},
		"removed": {asks(thA, 1), opOf(thA, "m", 1, 0, answerOp("yes")), renames(thA, "b"), removes(thB),
			opOf(thA, "n", 1, 0, answerOp("no"))},
	} {
		for _, purged := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.play(c...)
				w.wantClean()
				unknown := 0
				if purged {
					unknown = w.letters()
					must.Do(t, must.Get(w.conn.JetStream().Stream(t.Context(), events.DeadStream))(t).Purge(t.Context()))
				}
				a := w.account()
				if addsUp(t, a); len(a.Findings) != unknown {
					t.Errorf("purged %v: %+v, want %d findings", purged, a, unknown)
				}
			})
		}
	}
}

// An answer names the life of the thread that it is given to. A repair that makes the thread again from its events begins another one,
// and the answer counts there.
func TestRepairOfAnAnsweredThread(t *testing.T) {
	w := newWorld(t)
	op := answerOp("yes")
	op.Answer.Life = 1
	w.play(asks(thA, 1), opOf(thA, "m", 1, 0, op))
	w.settle()
	w.stop()
	w.loseHead(thA)
	w.dropItems(thA, func(int64) bool { return true })
	if done, _ := w.fix(thA, fsck.Config{}); done.Replayed != 2 {
		t.Errorf("repair = %+v, want two events again", done)
	}
	w.start()
	w.settle()
	if got := must.Get(w.cl.Thread(thA).Head(t.Context()))(t); got.N != 2 || w.letters() != 0 {
		t.Errorf("%d items and %d dead letters, want the question and its answer", got.N, w.letters())
	}
	if rs := must.Get(w.conn.Records().Records(t.Context(), events.PromptKey(thA, "q")))(t); rs[0].Exists() {
		t.Error("the prompt is open again")
	}
	w.wantNoFindings()
	w.wantClean()
}
