package tenants_test

import (
	"log/slog"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/pkg/events"
)

// TestThePersisterClosesSilentOutputs: the user that a persister is may publish the end of an output whose agent fell
// silent (SPEC O8).
func TestThePersisterClosesSilentOutputs(t *testing.T) {
	s := newSite(t)
	admin := s.conns["acme/admin"]
	must.Do(t, admin.Events().PublishEvents(t.Context(), []*events.Event{{
		Kind: events.KindChunk, Thread: events.Thread{Session: "mine", Name: "main"}, Producer: "p", Seq: 1,
		Body: events.Chunk{Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{Tool: "x"}}.Encode(),
	}}))
	open := func() int {
		outputs := must.Get(s.acme.Session("mine").Outputs(t.Context()))(t)
		return len(outputs)
	}
	must.Until(t, "one output is open", func() bool { return open() == 1 })
	var cfg service.PersisterConfig
	cfg.OutputLease = 400 * time.Millisecond
	defer natstest.Run(t, service.NewPersister(s.dial("acme", tenants.Persister, nil), cfg, slog.New(slog.DiscardHandler)).Run)()
	must.Until(t, "the output of an agent that fell silent is closed", func() bool { return open() == 0 })
}
