package natsadmin

import (
	"context"
	"fmt"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// Seal makes records foreign that are written from now on and have no check. Those that are there stay what they are.
// Who is connected knows it within a minute.
func (a *Admin) Seal(ctx context.Context) error {
	s, err := a.streams.LeaderStream(ctx, events.RecordsStream)
	if err == nil {
		info := s.CachedInfo()
		_, err = a.js.UpdateStream(ctx, natsio.Sealed(info.Config, info.State.LastSeq))
	}
	if err != nil {
		return fmt.Errorf("seal %s: %w", events.RecordsStream, natsio.WrapErr(err))
	}
	return nil
}
