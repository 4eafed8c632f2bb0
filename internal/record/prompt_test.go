package record

import (
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestPromptAsks(t *testing.T) {
	first := events.Prompt{ID: "p", Kind: "approval", Text: "Deploy?", Deadline: 5, Body: []byte(`{"to":["a","b"]}`)}
	stored := func(p events.Prompt) Prompt {
		p, _ = events.ParsePrompt(p.Item())
		return Prompt{Prompt: p}
	}
	for name, c := range map[string]struct {
		change func(p *events.Prompt)
		want   bool
	}{
		"the same":         {func(*events.Prompt) {}, true},
		"a later deadline": {func(p *events.Prompt) { p.Deadline = 9 }, true},
		"no deadline":      {func(p *events.Prompt) { p.Deadline = 0 }, true},
		"spaces in JSON":   {func(p *events.Prompt) { p.Body = []byte(`{ "to": ["a", "b"] }`) }, true},
		"another text":     {func(p *events.Prompt) { p.Text = "Drop the database?" }, false},
		"another kind":     {func(p *events.Prompt) { p.Kind = "text" }, false},
		"another body":     {func(p *events.Prompt) { p.Body = []byte(`{"to":["a"]}`) }, false},
		"no body":          {func(p *events.Prompt) { p.Body = nil }, false},
	} {
		again := first
		c.change(&again)
		must.Same(t, stored(first).Asks(again), c.want, name+": Asks = %v, want %v")
	}
	secret, masked, other := first, first, first
	secret.Text, masked.Text, other.Text = "Use k1?", "Use [redacted:key]?", "Keep k1?"
	must.Same(t, stored(masked).Asks(secret), true, "what was masked: Asks = %v, want %v")
	must.Same(t, stored(masked).Asks(other), false, "other words before what was masked: Asks = %v, want %v")
}
