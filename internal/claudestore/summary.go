package claudestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/events"
)

// MaxSummary bounds a summary, in bytes.
const MaxSummary = 256 << 10

// Summary is that of a session, and what names this one. The error wraps ErrNone where there is none.
func (s *Store) Summary(ctx context.Context, k Key) (value []byte, tag string, err error) {
	if err := k.Validate(); err != nil {
		return nil, "", err
	}
	n, err := s.session(ctx, k)
	if err == nil && n.is.Summary == nil {
		err = ErrNone
	}
	return n.is.Summary, tagOf(n.rec), err
}

// SetSummary replaces the summary that a tag names; "": there is none yet. ErrSummary: it is another one by now.
func (s *Store) SetSummary(ctx context.Context, k Key, value []byte, tag string) (now string, err error) {
	if jsonscan.Valid(value) != nil || len(value) > MaxSummary {
		return "", fmt.Errorf("%w: a summary is JSON of at most %d bytes", ErrEntry, MaxSummary)
	}
	if _, _, err := s.thread(ctx, k); err != nil {
		return "", err
	}
	n, err := s.session(ctx, k)
	if err != nil {
		return "", err
	}
	if tag != "" && tag != tagOf(n.rec) || tag == "" && n.is.Summary != nil {
		return "", ErrSummary
	}
	c := record.Claude{Project: k.Project, Session: k.Session, Summary: json.RawMessage(value)}
	rev, err := s.write(ctx, events.Thread{Session: n.name, Name: events.MainThread}, c, n.rec.Seq)
	if errors.Is(err, record.ErrConflict) {
		err = ErrSummary
	}
	return tagOf(record.Record{Seq: rev}), err
}

func tagOf(r record.Record) string { return strconv.FormatUint(r.Seq, 10) }
