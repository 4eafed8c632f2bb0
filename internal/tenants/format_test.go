package tenants_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/tenants"
	"spool/pkg/events"
)

// TestWhoRaisesTheFormat: a persister that may not raise the format of an earlier version's store does not write to it
// under the old number, which earlier versions take for theirs; it says who can.
func TestWhoRaisesTheFormat(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := s.dial("acme", tenants.Admin, nil)
	format := func() map[string]string {
		return must.Get(admin.JetStream().Stream(ctx, events.RecordsStream))(t).CachedInfo().Config.Metadata
	}
	now := format()["spool-format"]
	cfg := must.Get(admin.JetStream().Stream(ctx, events.RecordsStream))(t).CachedInfo().Config
	cfg.Metadata["spool-format"] = "1"
	must.Get(admin.JetStream().UpdateStream(ctx, cfg))(t)
	limits := natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}
	err := s.dial("acme", tenants.Persister, nil).Ensure(ctx, limits)
	if !errors.Is(err, record.ErrDenied) || !strings.Contains(err.Error(), "as an admin") {
		t.Errorf("Ensure of a persister's user = %v, want ErrDenied and who can", err)
	}
	must.Do(t, admin.Ensure(ctx, limits))
	must.Do(t, s.dial("acme", tenants.Persister, nil).Ensure(ctx, limits))
	must.Same(t, format()["spool-format"], now, "format %q, want %q")
}
