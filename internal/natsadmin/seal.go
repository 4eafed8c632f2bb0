package natsadmin

import (
	"context"
	"fmt"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// Seal makes records foreign that are written from now on and have no check. Those that are there stay what they are.
// Who is connected knows it within a minute. above is the last record that is spared.
func (a *Admin) Seal(ctx context.Context) (above uint64, err error) {
	s, err := a.streams.LeaderStream(ctx, events.RecordsStream)
	if err == nil {
		info := s.CachedInfo()
		above = info.State.LastSeq
		_, err = a.js.UpdateStream(ctx, natsio.Sealed(info.Config, info.State.LastSeq))
	}
	if err != nil {
		return 0, fmt.Errorf("seal %s: %w", events.RecordsStream, natsio.WrapErr(err))
	}
	return above, nil
}
