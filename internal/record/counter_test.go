package record_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Numbers and indices go up, are never taken twice, and survive their encoding (SPEC A1, A9).
func TestCounter(t *testing.T) {
	var c record.Counter
	again := func() {
		t.Helper()
		got := must.Get(record.DecodeCounter(c.Encode()))(t)
		c = got
	}
	for _, want := range []artifacts.Seq{"0", "1", "2"} {
		must.Same(t, c.Take(), want, "Take() = %s, want %s")
		again()
	}
	for _, q := range []struct{ parent, requested, want string }{
		{"", "Review", "0-Review"}, {"0-Review", "Sub", "0-Review.0-Sub"}, {"", "Review", "1-Review"}, {"0-Review", "x/y", "0-Review.1-x/y"},
	} {
		must.Same(t, must.Get(c.TakeAgent(q.parent, q.requested))(t), q.want, "TakeAgent(%q, %q) = %s, want %s", q.parent, q.requested)
		again()
	}
	c.Raise("99999999999999999999")
	c.Raise("5")
	again()
	must.Same(t, c.Take(), "100000000000000000000", "Take() after Raise = %s, want %s")
	if c, err := record.DecodeCounter(nil); err != nil || c.Artifacts != "" {
		t.Errorf("a counter that is not there = %+v, %v", c, err)
	}
}

func samplePrompt() record.Prompt {
	return record.Prompt{
		Prompt:  events.Prompt{ID: "p", Kind: "approval", Text: "?", Deadline: 9, Body: []byte(`{"id":"p"}`)},
		Dialect: "item", Item: 3, Asked: 4,
		Resolution: events.Resolution{Outcome: "approved", By: "mira", At: 5, Answer: []byte("true")}, Producer: "x", Seq: 6,
	}
}

func TestPromptRecord(t *testing.T) {
	p := samplePrompt()
	got, err := record.DecodePrompt(p.Encode())
	if err != nil || string(got.Encode()) != string(p.Encode()) || !got.Settled() || got.Deadline != 9 ||
		string(got.Answer) != "true" || got.Seq != 6 {
		t.Errorf("DecodePrompt = %+v, %v, want %+v", got, err, p)
	}
	p.Life = 1 << 40
	if got, err := record.DecodePrompt(p.Encode()); err != nil || got.Life != p.Life {
		t.Errorf("DecodePrompt = %+v, %v, want the life %d", got, err, p.Life)
	}
}

// TestPromptOfALife: prompts of an id are one question in one life of their thread, and where that is not known, if they ask the same.
func TestPromptOfALife(t *testing.T) {
	with := func(life uint64, text string) record.Prompt {
		q, _ := events.ParsePrompt(events.Prompt{ID: "p", Kind: "approval", Text: text}.Item())
		return record.Prompt{Prompt: q, Dialect: "item", Life: life}
	}
	for _, c := range []struct {
		a, b uint64
		text string
		want bool
	}{{7, 7, "?", true}, {7, 9, "?", false}, {0, 9, "?", true}, {7, 0, "?", true}, {0, 9, "!", false}} {
		must.Same(t, with(c.a, "?").IsOf(with(c.b, c.text)), c.want,
			"IsOf of the lives %d and %d, asked ? and %s = %v, want %v", c.a, c.b, c.text)
	}
}

// What comes back from the store may be anything: a decoder answers with a value or an error.
func FuzzDecode(f *testing.F) {
	f.Add(samplePrompt().Encode())
	f.Add(record.Counter{Artifacts: "1", Agents: []record.Agents{{Parent: "a", Last: "2"}}}.Encode())
	f.Add(record.Object{Bucket: "b", Name: "n"}.Locator())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := record.DecodePrompt(b); err == nil {
			if again, err := record.DecodePrompt(p.Encode()); err != nil || again.ID != p.ID {
				t.Errorf("prompt %+v reads as %+v, %v", p, again, err)
			}
		}
		if c, err := record.DecodeCounter(b); err == nil && len(b) > 0 {
			if again, err := record.DecodeCounter(c.Encode()); err != nil || again.Artifacts != c.Artifacts {
				t.Errorf("counter %+v reads as %+v, %v", c, again, err)
			}
		}
		if o, err := record.DecodeLocator(b); err == nil {
			if again, err := record.DecodeLocator(o.Locator()); err != nil || again != o {
				t.Errorf("object %+v reads as %+v, %v", o, again, err)
			}
		}
	})
}
