package client_test

import (
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// The trace context of an entry comes with its items, and only with its own.
func TestTrace(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r, th := newRig(t), thread("s")
	entries := posts(th, 1, 4)
	entries[1].Trace, entries[2].Trace = trace, "not\r\na: trace"
	r.publish(t, entries...)
	var got []string
	for item := range must.All(t, r.Subscribe(limited(t), client.Filter{Session: "s"}, client.Position{All: true})) {
		if got = append(got, item.Trace); len(got) == 4 {
			break
		}
	}
	for i, want := range []string{"", trace, "", ""} {
		must.Same(t, got[i], want, "item %d has the trace %q, want %q", i+1)
	}
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	m, err := s.GetMsg(t.Context(), 2)
	if err != nil || m.Header.Get("traceparent") != trace {
		t.Errorf("header of the second item's message = %v, %v, want traceparent %s", m.Header, err, trace)
	}
}
