package scrub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Everything is what a scrub reads.
type Everything interface {
	Store
	Reader
	Keys(ctx context.Context, filter string) ([]string, error)
	ReadChunks(ctx context.Context, o record.Object, limit int, f func(chunk []byte) error) error
	Stat(ctx context.Context, bucket, name string) (record.Object, error)
	Messages(ctx context.Context, stream string, from uint64, f func(seq uint64, subject string, data []byte) error) error
	Message(ctx context.Context, stream string, seq uint64) ([]byte, error)
}

// Config says how to scrub.
type Config struct {
	Rate     int64                    // bytes read in a second at most; 0 = as fast as it goes
	Progress func(done, total uint64) // is told the bytes read and about how many there are; may be nil
}

// Pass is one way through everything.
type Pass struct {
	Began    int64     `json:"began"` // Unix nanoseconds
	Ended    int64     `json:"ended"` // 0: it goes on, or will
	Bytes    uint64    `json:"bytes"`
	Packs    int       `json:"packs"`
	Blobs    int       `json:"blobs"`
	Files    int       `json:"artifacts"`
	Records  int       `json:"records"`
	Messages uint64    `json:"messages"` // of events, items, dead letters
	Found    int       `json:"found"`
	Findings []Finding `json:"findings"` // the first of them
}

// State is what is kept: the last pass that ended, and one that goes on, with where it is.
type State struct {
	Last  Pass   `json:"last"`
	Now   *Pass  `json:"now,omitempty"`
	Step  int    `json:"step,omitempty"`
	After string `json:"after,omitempty"` // the key that was looked at last in that step
	Seq   uint64 `json:"seq,omitempty"`   // or the sequence

	rev uint64
}

// findings that stand: those of the pass that goes on, and of the last one what that has not come to yet.
func (s State) findings() []Finding {
	if s.Now == nil {
		return s.Last.Findings
	}
	return append(slices.Clone(s.Now.Findings), s.Last.Findings...)
}

// saveEvery is how much work a scrub that is stopped does again, at most.
const saveEvery = 5 * time.Second

// ReadState reads how scrubbing stands.
func ReadState(ctx context.Context, s Store) (st State, err error) {
	rs, err := s.Records(ctx, events.ScrubKey)
	if err != nil {
		return st, err
	}
	if json.Unmarshal(rs[0].Value, &st) != nil { // one that cannot be read: it begins again
		st = State{}
	}
	st.rev = rs[0].Seq
	return st, nil
}

// store fails with record.ErrConflict when another process scrubs.
func (s *State) store(ctx context.Context, to Store) error {
	b, err := json.Marshal(s)
	if err == nil {
		s.rev, err = to.Write(ctx, record.Put{Key: events.ScrubKey, Value: b, Expect: s.rev})
	}
	if err != nil {
		return fmt.Errorf("keep where the scrub is: %w", err)
	}
	return nil
}

// scrubber is one run of a pass.
type scrubber struct {
	Everything
	cfg   Config
	state State
	total uint64
	saved time.Time
	began time.Time
	read  uint64 // bytes of this run
}

// steps of a pass, in order. A stored State names them by their index.
var steps = []func(*scrubber, context.Context) error{
	(*scrubber).packs, (*scrubber).blobs, (*scrubber).artifacts, (*scrubber).records, (*scrubber).events, (*scrubber).items, (*scrubber).dead,
}

// Scrub reads everything once: each byte of packs, blobs and artifacts against its digest, each record by its key, each message
// of EVENTS, ITEMS and the dead letters in sequence. It goes on where one before it was stopped, and what it finds is kept
// (Alarms) until a pass does not find it any more. The pass is returned beside an error too. record.ErrConflict: another process
// scrubs.
func Scrub(ctx context.Context, s Everything, cfg Config) (Pass, error) {
	sc := &scrubber{Everything: s, cfg: cfg, began: time.Now(), saved: time.Now()}
	var err error
	if sc.state, err = ReadState(ctx, s); err != nil {
		return Pass{}, err
	}
	states, err := s.StreamStates(ctx)
	if err != nil {
		return Pass{}, err
	}
	for _, st := range states {
		sc.total += st.Bytes
	}
	if sc.state.Now == nil || sc.state.Step >= len(steps) {
		sc.state.Now = &Pass{Began: time.Now().UnixNano(), Findings: []Finding{}}
		sc.state.Step, sc.state.After, sc.state.Seq = 0, "", 0
	}
	if err := sc.save(ctx, true); err != nil {
		return *sc.state.Now, err
	}
	for sc.state.Step < len(steps) {
		if err := steps[sc.state.Step](sc, ctx); err != nil {
			keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveEvery)
			defer cancel()
			return *sc.state.Now, errors.Join(err, sc.save(keep, true))
		}
		sc.state.Step++
		sc.state.After, sc.state.Seq = "", 0
	}
	done := *sc.state.Now
	done.Ended = time.Now().UnixNano()
	sc.state.Last, sc.state.Now, sc.state.Step = done, nil, 0
	return done, sc.save(ctx, true)
}

// save keeps where the pass is, once in a while or now.
func (s *scrubber) save(ctx context.Context, now bool) error {
	if !now && time.Since(s.saved) < saveEvery {
		return nil
	}
	s.saved = time.Now()
	return s.state.store(ctx, s)
}

// took counts what was read, and waits until it may have been.
func (s *scrubber) took(ctx context.Context, n int) error {
	s.read += uint64(n)
	s.state.Now.Bytes += uint64(n)
	if s.cfg.Progress != nil {
		s.cfg.Progress(s.state.Now.Bytes, max(s.total, s.state.Now.Bytes))
	}
	if s.cfg.Rate <= 0 {
		return ctx.Err()
	}
	due := s.began.Add(time.Duration(float64(s.read) / float64(s.cfg.Rate) * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		sleep.For(ctx, wait)
	}
	return ctx.Err()
}

// find notes a finding, unless the record was written meanwhile; seq 0 asks nobody.
func (s *scrubber) find(ctx context.Context, seq uint64, f Finding) error {
	if seq != 0 {
		rs, err := s.Records(ctx, f.Record)
		if err != nil || rs[0].Seq != seq {
			return err
		}
	}
	p := s.state.Now
	if p.Found++; len(p.Findings) < maxFindings {
		p.Findings = append(p.Findings, f)
	}
	return nil
}

// each gives the records of a class to look, behind the one that was looked at last.
func (s *scrubber) each(ctx context.Context, filter string, look func(r record.Record) error) error {
	keys, err := s.Keys(ctx, filter)
	if err != nil {
		return err
	}
	from, there := slices.BinarySearch(keys, s.state.After)
	if there {
		from++
	}
	const atOnce = 64
	for some := range slices.Chunk(keys[from:], atOnce) {
		rs, err := s.Records(ctx, some...)
		for i, key := range some {
			r := record.Record{}
			if err == nil {
				r = rs[i]
			} else if r, err = s.one(ctx, key); err != nil {
				return err
			}
			if r.Exists() {
				if err := look(r); err != nil {
					return err
				}
			}
			s.state.After = key
			if err := s.save(ctx, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// one reads a record by itself, after one of several could not be read.
func (s *scrubber) one(ctx context.Context, key string) (record.Record, error) {
	rs, err := s.Records(ctx, key)
	if err == nil {
		return rs[0], nil
	}
	if record.KindOf(ctx, err) == "" {
		return record.Record{}, err
	}
	return record.Record{}, s.find(ctx, 0, Finding{Corrupt, key, err.Error()})
}

func (s *scrubber) packs(ctx context.Context) error {
	return s.each(ctx, events.PackKey("*"), func(r record.Record) error {
		rec, err := record.DecodePack(r.Value)
		if err != nil {
			return s.find(ctx, r.Seq, Finding{Unreadable, r.Key, err.Error()})
		}
		if rec.Gone {
			return nil
		}
		s.state.Now.Packs++
		raw, good, err := s.object(ctx, r, rec.Object, true)
		if err != nil || !good {
			return err
		}
		if rec.Header > int64(len(raw)) {
			return s.find(ctx, r.Seq, Finding{Corrupt, r.Key, fmt.Sprintf("header of %d bytes in %d", rec.Header, len(raw))})
		}
		p, err := casstore.OpenPack(raw[:rec.Header], raw[rec.Header:])
		if err == nil {
			err = p.Verify()
		}
		if err != nil {
			return s.find(ctx, r.Seq, Finding{Corrupt, r.Key, err.Error()})
		}
		return nil
	})
}

func (s *scrubber) blobs(ctx context.Context) error {
	return s.each(ctx, events.BlobKey("*"), func(r record.Record) error {
		rec, err := record.DecodeBlob(r.Value)
		if err != nil {
			return s.find(ctx, r.Seq, Finding{Unreadable, r.Key, err.Error()})
		}
		if rec.Gone {
			return nil
		}
		s.state.Now.Blobs++
		want, err := hex.DecodeString(r.Key[len(events.BlobKey("")):])
		if err != nil || len(want) != sha256.Size {
			return s.find(ctx, r.Seq, Finding{Unreadable, r.Key, "the key is no SHA-256"})
		}
		o := rec.Object
		o.Sum = [32]byte(want) // whatever the record says
		_, _, err = s.object(ctx, r, o, false)
		return err
	})
}

func (s *scrubber) artifacts(ctx context.Context) error {
	return s.each(ctx, events.ArtifactKeys("", ""), func(r record.Record) error {
		a, err := artifacts.DecodeRecord(r.Value)
		if err != nil {
			return s.find(ctx, r.Seq, Finding{Unreadable, r.Key, err.Error()})
		}
		if a.Writer == artifacts.FromFile { // its bytes are its tool's, on a machine that it names
			return nil
		}
		s.state.Now.Files++
		o, err := record.DecodeLocator(a.Locator)
		if len(a.Locator) == 0 {
			o, err = s.Stat(ctx, events.ArtifactsBucket, a.Object)
		}
		if err != nil {
			if record.KindOf(ctx, err) == "" {
				return err
			}
			return s.find(ctx, r.Seq, Finding{Missing, r.Key, err.Error()})
		}
		_, _, err = s.object(ctx, r, o, false)
		return err
	})
}

// object reads an object's bytes, and its meta message. raw are the bytes, if they are wanted.
func (s *scrubber) object(ctx context.Context, r record.Record, o record.Object, keep bool) (raw []byte, good bool, err error) {
	size := 0
	wrong, err := record.CheckBytes(ctx, s, o, func(chunk []byte) error {
		size += len(chunk)
		if keep {
			raw = append(raw, chunk...)
		}
		return s.took(ctx, len(chunk))
	})
	if err != nil {
		return nil, false, err
	}
	about, err := record.CheckMeta(ctx, s, o)
	if err != nil {
		return nil, false, err
	}
	if wrong != nil && wrong.Kind == Missing && size == 0 && about != nil && about.Kind == Missing && !strings.HasPrefix(r.Key, "artifact.") {
		return nil, false, nil // as a whole: a server that was killed can bring back the record of what was collected; fsck knows who needs it
	}
	if wrong != nil {
		return nil, false, s.find(ctx, r.Seq, Finding{wrong.Kind, r.Key, wrong.Detail})
	}
	if about != nil && about.Kind == record.Misnamed {
		about.Kind = Inconsistent
	}
	if about != nil {
		err = s.find(ctx, r.Seq, Finding{about.Kind, r.Key, about.Detail})
	}
	return raw, true, err
}

// records reads every record by its key, and decodes what is known. A class that is not is a finding.
func (s *scrubber) records(ctx context.Context) error {
	return s.each(ctx, ">", func(r record.Record) error {
		s.state.Now.Records++
		if err := s.took(ctx, len(r.Value)); err != nil {
			return err
		}
		class, err := record.ClassOf(r.Key)
		if err == nil {
			err = class.Check(r.Value)
		}
		if err != nil {
			return s.find(ctx, r.Seq, Finding{Unreadable, r.Key, err.Error()})
		}
		return nil
	})
}
