package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// ErrEntry is wrapped by every refusal of a line or of what came with it: the sender's mistake (SPEC B2).
var ErrEntry = family.Invalid.New("refused")

// ErrTooLarge is an ErrEntry: the entry is longer than Config.MaxBody.
var ErrTooLarge = fmt.Errorf("%w: too large", ErrEntry)

// rawDialect takes bytes that need not be JSON.
const rawDialect = "raw"

// event makes a line an event, or says why it can not be one.
func (s *stream) event(ctx context.Context, l line) (*events.Event, error) {
	if l.bad != nil {
		return nil, l.bad
	}
	e := &events.Event{
		Producer: s.cfg.Producer, Epoch: s.cfg.Epoch, Seq: max(s.cfg.Start+uint64(l.n)-1, s.seq+1), Kind: events.KindEntry,
		Dialect: s.cfg.Dialect, Thread: s.cfg.Thread, User: s.cfg.User, Host: s.cfg.Host, Trace: s.cfg.Trace, Body: l.text, Ref: l.ref,
	}
	if s.cfg.Envelopes {
		if err := s.open(e, l.text); err != nil {
			return nil, err
		}
	}
	if err := s.check(ctx, e); err != nil {
		return nil, err
	}
	if e.Seq <= s.seq {
		return nil, fmt.Errorf("%w: seq %d after %d: a producer's sequence must grow", ErrEntry, e.Seq, s.seq)
	}
	if s.cfg.HasRoom != nil {
		if err := s.cfg.HasRoom(ctx, e); err != nil {
			return nil, err
		}
	}
	s.seq = e.Seq
	return e, nil
}

func tooLarge(cfg Config) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, cfg.MaxBody)
}

func notJSON(err error) error {
	return fmt.Errorf("%w: entry: %w; bytes that are not JSON go in the dialect %q", ErrEntry, err, rawDialect)
}

// open reads an envelope: {"session", "thread", "dialect", "body", "time", "user", "seq"}. The body is a JSON value,
// or a string that holds the raw entry as text. The time is what events.ParseTime reads. All but the body
// have defaults, which stand for null too. Another member is refused: whoever sends it means something by it.
func (s *stream) open(e *events.Event, text []byte) error {
	if err := jsonscan.Valid(text); err != nil {
		return fmt.Errorf("%w: envelope: %w", ErrEntry, err)
	}
	if jsonscan.KindOf(text) != jsonscan.KindObject {
		return fmt.Errorf(`%w: envelope: want an object {"session", "thread", "dialect", "body"}`, ErrEntry)
	}
	e.Body = nil
	e.Thread.Name = cmp.Or(e.Thread.Name, events.MainThread)
	var errs []error
	_ = jsonscan.Object(text, func(key, value []byte) bool {
		if err := member(e, string(key), value); err != nil {
			errs = append(errs, fmt.Errorf("%w: envelope: %s: %w", ErrEntry, key, err))
		}
		return true
	})
	if e.Body == nil {
		errs = append(errs, fmt.Errorf("%w: envelope: body is missing", ErrEntry))
	}
	return errors.Join(errs...)
}

var (
	errString = errors.New("want a string")
	errSeq    = errors.New("want a whole number from 1")
	errMember = errors.New("no member of an envelope: it has session, thread, dialect, body, time, user and seq")
	errNamed  = errors.New("all lines of a stream have one, named beside it (Spool-Producer and Spool-Epoch, or --producer)")
	errKind   = errors.New("an envelope is an entry: leave it out; what is done to a thread has a request of its own")
	errBase64 = errors.New("no member of an envelope: give the entry as body, or by itself, as a line that is no envelope")
	errOwner  = errors.New("a sequence names an event only under a producer of your own: name one, or leave it out")
)

func member(e *events.Event, key string, value []byte) (err error) {
	null := jsonscan.KindOf(value) == jsonscan.KindNull
	text := func(dst *string) {
		if null {
			return
		}
		s, ok := jsonscan.Text(value)
		if !ok {
			err = errString
		}
		*dst = s
	}
	switch key {
	case "session":
		text(&e.Thread.Session)
	case "thread":
		text(&e.Thread.Name)
	case "dialect":
		text(&e.Dialect)
	case "user":
		text(&e.User)
	case "time":
		e.Time, err = events.ParseTime(value)
	case "seq":
		if null {
			return nil
		}
		if strings.HasPrefix(e.Producer, threads.Ephemeral) {
			return errOwner
		}
		n, ok := jsonscan.Int(value)
		if !ok || n < 1 {
			return errSeq
		}
		e.Seq = uint64(n)
	case "body":
		e.Body = value
		if s, ok := jsonscan.Text(value); ok {
			e.Body = append(make([]byte, 0, len(s)), s...)
		}
	case "producer", "epoch":
		return errNamed
	case "kind":
		return errKind
	case "body_base64", "ref":
		return errBase64
	default:
		return errMember
	}
	return err
}

// check holds an event against everything that a persister would send to the dead letters.
func (s *stream) check(ctx context.Context, e *events.Event) error {
	if err := e.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if err := checkDialect(e.Dialect); err != nil {
		return err
	}
	if s.cfg.Takes != nil {
		if err := s.cfg.Takes(ctx, e); err != nil {
			return fmt.Errorf("%w: %w", ErrEntry, err)
		}
	}
	if e.Ref != nil || !dialect.IsJSON(e.Dialect) {
		return nil
	}
	if err := jsonscan.Valid(e.Body); err != nil {
		return notJSON(err)
	}
	if d, _ := dialect.Lookup(e.Dialect); e.Dialect == "item" || e.Dialect == "step" { // the two that can fail
		read, err := d.Read(e.Body, nil)
		for i := 0; err == nil && e.Dialect == "item" && i < len(read.Items); i++ {
			err = events.CheckPrompt(read.Items[i])
		}
		if err == nil && s.cfg.Check != nil {
			err = s.cfg.Check(ctx, e, read)
		}
		if err != nil {
			return fmt.Errorf("%w: entry: %w", ErrEntry, err)
		}
	}
	return nil
}

func checkDialect(name string) error {
	if _, ok := dialect.Lookup(name); ok {
		return nil
	}
	if name == "" {
		return fmt.Errorf("%w: no dialect: use one of %s", ErrEntry, strings.Join(dialect.Names(), ", "))
	}
	return fmt.Errorf("%w: unknown dialect %q: use one of %s", ErrEntry, name, strings.Join(dialect.Names(), ", "))
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }
