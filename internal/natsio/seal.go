package natsio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

const (
	// hdrCheck is the header of a record's message with what record.Seal makes of its key and its value.
	hdrCheck = "Spool-Check"
	// metaSealed is the member of the record bucket's metadata that is record.Seal's From.
	metaSealed = "spool-sealed"
)

// A record that is not certainly the system's is judged by a seal that is younger than this: an operator may have
// sealed the store since, or made it anew.
const (
	sealFor    = time.Minute // of a record without a check, in a store that is not sealed; and of what is written
	foreignFor = time.Second // of one that is foreign by the seal that is known
)

// knownSeal is a seal and when it was read.
type knownSeal struct {
	record.Seal
	at time.Time
}

func sealOf(cfg jetstream.StreamConfig) *knownSeal {
	from, err := strconv.ParseUint(cfg.Metadata[metaSealed], 10, 64)
	if err != nil {
		from = record.Unsealed
	}
	return &knownSeal{record.Seal{Store: StoreOf(cfg), From: from}, time.Now()}
}

// seal is the record bucket's, read again if it is older than that; 0: as it was read last. Who may not ask for it
// makes and judges no checks.
func (recs Records) seal(ctx context.Context, most time.Duration) (record.Seal, error) {
	known := recs.c.sealed.Load()
	if known != nil && (most == 0 || time.Since(known.at) < most) {
		return known.Seal, nil
	}
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	switch err = WrapErr(err); {
	case err == nil:
		known = sealOf(s.CachedInfo().Config)
	case errors.Is(err, record.ErrDenied):
		known = &knownSeal{at: time.Now()}
	default:
		return record.Seal{}, fmt.Errorf("ask which store %s is of: %w", events.RecordsStream, err)
	}
	recs.c.sealed.Store(known)
	return known.Seal, nil
}

// Store is which store the events are of: a restore makes another one. "": nobody has marked it, or who asks may not know.
func (evs Events) Store(ctx context.Context) (string, error) {
	s, err := evs.c.Records().seal(ctx, foreignFor)
	return s.Store, err
}

// open is the record of a message: as record.Record.Foreign if its value is not the system's.
func (recs Records) open(ctx context.Context, r record.Record, check string) (record.Record, error) {
	if len(r.Value) == 0 {
		return r, nil
	}
	for most := time.Duration(0); ; {
		s, err := recs.seal(ctx, most)
		if err != nil {
			return r, err
		}
		own, certain := s.Own(r, check)
		if own && (certain || most > 0) {
			return r, nil
		}
		if most > 0 {
			if recs.c.told.now() {
				recs.c.log.WarnContext(ctx, "foreign record: spool fsck lists them all", "record", r.Key, "seq", r.Seq)
			}
			return r.Foreign(), nil
		}
		if most = foreignFor; own {
			most = sealFor
		}
	}
}

// opened is the record of a consumer's message.
func (recs Records) opened(ctx context.Context, m jetstream.Msg, seq uint64) (record.Record, error) {
	r := record.Record{Key: RecordKey(m.Subject()), Value: m.Data(), Seq: seq}
	return recs.open(ctx, r, m.Headers().Get(hdrCheck))
}

// putMsgs are the messages that write records.
func (recs Records) putMsgs(ctx context.Context, puts ...record.Put) ([]*nats.Msg, error) {
	s, err := recs.seal(ctx, sealFor)
	if err != nil {
		return nil, err
	}
	msgs := make([]*nats.Msg, len(puts), len(puts)+1)
	for i, p := range puts {
		msgs[i] = putMsg(p)
		if check := s.Check(p.Key, p.Value); check != "" {
			msgs[i].Header[hdrCheck] = []string{check}
		}
	}
	return msgs, nil
}

// Sealed is the configuration of the record bucket with the seal that begins behind a sequence (record.Seal).
func Sealed(cfg jetstream.StreamConfig, from uint64) jetstream.StreamConfig {
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[metaSealed] = strconv.FormatUint(from, 10)
	return cfg
}
