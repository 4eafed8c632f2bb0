package natsadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Usage reads the size of every stream of Spool.
func (a *Admin) Usage(ctx context.Context) ([]record.Usage, error) {
	var out []record.Usage
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		s, err := a.js.Stream(ctx, cfg.Name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, natsio.WrapErr(err))
		}
		info := s.CachedInfo()
		u := record.Usage{Stream: cfg.Name, Messages: info.State.Msgs, Bytes: info.State.Bytes, Limit: max(info.Config.MaxBytes, 0)}
		out = append(out, u)
	}
	return out, nil
}

// Account is what the account may store and does.
type Account struct {
	Store, MaxStore int64 // bytes; MaxStore 0 = no limit
	Streams         int
}

// Account reads the account's limits.
func (a *Admin) Account(ctx context.Context) (Account, error) {
	info, err := a.js.AccountInfo(ctx)
	if err != nil {
		return Account{}, natsio.WrapErr(err)
	}
	return Account{Store: int64(info.Store), MaxStore: max(info.Limits.MaxStore, 0), Streams: info.Streams}, nil
}

// Report stores a report of a gc run.
func (a *Admin) Report(ctx context.Context, report []byte) error {
	_, err := a.streams.Send(ctx, []*nats.Msg{{Subject: events.GCReportSubject, Data: report}})
	return err
}

// LastReport reads the newest report of gc, and when it was stored; nil when there is none.
func (a *Admin) LastReport(ctx context.Context) (report []byte, at time.Time, err error) {
	s, err := natsio.MessagesOf(ctx, a.streams, events.GCStream)
	if err != nil {
		return nil, at, fmt.Errorf("read gc's report: %w", natsio.WrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCReportSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, at, nil
	}
	if err != nil {
		return nil, at, fmt.Errorf("read gc's report: %w", natsio.WrapErr(err))
	}
	return m.Data, m.Time, nil
}
