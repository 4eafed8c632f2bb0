package tenants_test

import (
	"fmt"
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
		outputs := must.Get(s.acme.Outputs(t.Context(), "mine"))(t)
		return len(outputs)
	}
	eventually(t, "an open output", func() error {
		if n := open(); n != 1 {
			return fmt.Errorf("%d outputs are open", n)
		}
		return nil
	})
	var cfg service.PersisterConfig
	cfg.OutputLease = 400 * time.Millisecond
	defer natstest.Run(t, service.NewPersister(s.dial("acme", tenants.Persister, nil), cfg, slog.New(slog.DiscardHandler)).Run)()
	end := time.Now().Add(30 * time.Second)
	for ; open() > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an output whose agent fell silent stays open")
		}
	}
}
